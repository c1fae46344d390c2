//! Regions: mappings that hold heaps and nothing else, with a guard at either end.
//!
//! If a heap lay beside a program's block, a program that writes past the block's end would write
//! to the heap. Then the malloc of another thread would return an address that the program wrote.
//!
//! ```text
//! region:  | guard | heaps, made accessible step by step → | not yet accessible | guard |
//! ```
//!
//! Rules
//! 1. `LAST` is read and written under `LOCK`.
//! 2. A region is never unmapped, and a heap in it is never freed. The memory that `take` returns
//!    is zero: no one had it before.
//! 3. The first and the last step of a region never become accessible.

use crate::backend::arena;
use crate::backend::owner::HEAP_SHIFT;
use crate::base::sync::Ordering::Relaxed;
use crate::os;
use crate::proto::lock::Lock;
use core::cell::UnsafeCell;

const HEAP_BYTES: usize = 1 << HEAP_SHIFT;
/// The bytes that become accessible at a time, and the length of a guard. No machine has larger
/// system pages.
const STEP: usize = arena::SLOT;
/// Steps of the first region: two for heaps, 16 heaps in all. Few processes have more threads.
const FIRST: usize = 4;
/// Steps of each further region.
const FURTHER: usize = 32;

/// The region that the next heaps come from. The fields are addresses.
struct Region {
    /// The next heap.
    next: usize,
    /// The beginning of the part that is not accessible yet.
    closed: usize,
    /// The guard behind the heaps. 0: there is no region.
    guard: usize,
}

struct Last(UnsafeCell<Region>);
// SAFETY: every access to the cell is under `LOCK` (rule 1), or in the child of a fork that has one
// thread.
unsafe impl Sync for Last {}
#[unsafe(link_section = ".data.hakmem")]
static LAST: Last = Last(UnsafeCell::new(NONE));
const NONE: Region = Region { next: 0, closed: 0, guard: 0 };

/// Guards `LAST`.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();

/// Takes the memory for one more heap, and returns its address. None: the system has no more
/// address space or no more memory. A later call may succeed. O(1).
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn take() -> Option<usize> {
    let _held = LOCK.lock();
    // SAFETY: this thread holds `LOCK`, which guards the cell (rule 1). No other reference to it
    // lives.
    let last = unsafe { &mut *LAST.0.get() };
    if last.next == last.guard {
        *last = reserve(if last.guard == 0 { FIRST } else { FURTHER })?;
    } else if last.next == last.closed {
        last.open()?;
    }
    last.next += HEAP_BYTES;
    Some(last.next - HEAP_BYTES)
}

/// Reserves a region of `steps` steps, or fewer if the system has less address space. The first
/// step for heaps is accessible.
#[unsafe(link_section = ".text.hot.hakmem")]
fn reserve(steps: usize) -> Option<Region> {
    let mut steps = steps;
    while steps > 2 {
        // The additional bytes let the heaps start at a multiple of their length.
        let len = steps * STEP + HEAP_BYTES;
        if let Some(at) = os::reserve(len) {
            arena::RESERVED.fetch_add(len, Relaxed);
            let first = (at + STEP).next_multiple_of(HEAP_BYTES);
            let mut region =
                Region { next: first, closed: first, guard: first + (steps - 2) * STEP };
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
    /// Makes the next step accessible. None: the system has no memory.
    fn open(&mut self) -> Option<()> {
        if !os::commit(self.closed, STEP) {
            return None;
        }
        arena::COMMITTED.fetch_add(STEP, Relaxed);
        self.closed += STEP;
        Some(())
    }
}

/// Forgets the region, in the child of a fork that interrupted another thread under the lock. The
/// rest of the region is not used.
///
/// # Safety
/// The calling thread is the only one of the child, and it did not hold the lock at the fork.
pub unsafe fn forget() {
    // SAFETY: the child has one thread. The lock was another thread's, so no reference to the cell
    // is in use.
    unsafe { *LAST.0.get() = NONE };
}
