//! Regions: the mappings that heaps lie in, with nothing else and a guard at either end.
//!
//! A heap that lay beside a program's block would be written by a program that writes past the block's end. Then another
//! thread's malloc would hand out what that program wrote.
//!
//! ```text
//! region:  | guard | heaps, made accessible step by step → | not yet accessible | guard |
//! ```
//!
//! Rules
//! 1. `LAST` is read and written under `LOCK`.
//! 2. A region is for ever, and so is each heap in it. What is handed out is zero: nobody had it before.
//! 3. The first and the last step of a region are never made accessible.

use crate::backend::arena;
use crate::backend::owner::HEAP_SHIFT;
use crate::base::sync::Ordering::Relaxed;
use crate::os;
use crate::proto::lock::Lock;
use core::cell::UnsafeCell;

const HEAP_BYTES: usize = 1 << HEAP_SHIFT;
/// What is made accessible at a time, and the length of a guard: no machine has larger pages.
const STEP: usize = arena::SLOT;
/// Steps of the first region: two of them for heaps, 16 in all. Few processes have more threads.
const FIRST: usize = 4;
/// Steps of the others.
const FURTHER: usize = 32;

/// The region that heaps are cut from: addresses.
struct Region {
    /// Of the next heap.
    next: usize,
    /// From here on nothing is accessible yet.
    closed: usize,
    /// Of the guard behind the heaps. 0: there is no region.
    guard: usize,
}

struct Last(UnsafeCell<Region>);
// SAFETY: rule 1.
unsafe impl Sync for Last {}
#[unsafe(link_section = ".data.hakmem")]
static LAST: Last = Last(UnsafeCell::new(NONE));
const NONE: Region = Region { next: 0, closed: 0, guard: 0 };

/// Held while a place for a heap is taken.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();

/// Memory for one more heap: its address. None: the system has no more address space, or no more memory; nothing is lost
/// by that. O(1).
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn take() -> Option<usize> {
    let _held = LOCK.lock();
    // SAFETY: rule 1.
    let last = unsafe { &mut *LAST.0.get() };
    if last.next == last.guard {
        *last = reserve(if last.guard == 0 { FIRST } else { FURTHER })?;
    } else if last.next == last.closed {
        last.open()?;
    }
    last.next += HEAP_BYTES;
    Some(last.next - HEAP_BYTES)
}

/// A region of `steps` steps, or as many as the system has address space for, with the first heaps accessible.
#[unsafe(link_section = ".text.hot.hakmem")]
fn reserve(steps: usize) -> Option<Region> {
    let mut steps = steps;
    while steps > 2 {
        // With room to begin at a multiple of a heap's length.
        let len = steps * STEP + HEAP_BYTES;
        if let Some(at) = os::reserve(len) {
            arena::RESERVED.fetch_add(len, Relaxed);
            let first = (at + STEP).next_multiple_of(HEAP_BYTES);
            let mut region = Region { next: first, closed: first, guard: first + (steps - 2) * STEP };
            if region.open().is_none() {
                arena::give_up(at, len);
                return None;
            }
            return Some(region);
        }
        steps = steps / 2 + 1;
    }
    None
}

impl Region {
    /// Makes the next step accessible.
    fn open(&mut self) -> Option<()> {
        if !os::commit(self.closed, STEP) {
            return None;
        }
        arena::COMMITTED.fetch_add(STEP, Relaxed);
        self.closed += STEP;
        Some(())
    }
}

/// In the child of a fork that another thread made in the middle of a change: what is left of the region is not used.
pub fn forget() {
    // SAFETY: this is the child's only thread, and the lock was another's.
    unsafe { *LAST.0.get() = NONE };
}
