//! Fenced blocks: large blocks that were freed a moment ago lie without access.
//!
//! Their memory goes back to the system. To take the access away costs two system calls, and to use
//! the place again costs page faults. So
//! a program that frees such blocks all the time fences only one in each tick of the clock; the
//! others go the usual way. Such a thread asks the clock at some of its frees only. At the level
//! `high` each block is fenced.
//!
//! Rules
//! 1. `LOCK` guards the table. A thread that finds it taken fences nothing.
//! 2. The thread that writes the table has the lock, which orders all steps (`tests/loom/lock.rs`).
//!    So they are relaxed.
//! 3. [`has`] reads without the lock. It compares one word for each place, and follows none: the
//!    answer is right for one moment. A thread that frees a block asks of that block alone. It is
//!    right about it: whoever gave it the block was ordered behind the place that the block left.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicU32, AtomicUsize};
use crate::harden::{ON, has};
use crate::os;
use crate::policy::{self, Hardened};
use crate::proto::lock::Lock;
use core::cell::Cell;

/// Blocks that are fenced at a time.
const PLACES: usize = 8;
/// The largest sum of their bytes that stays reserved for nothing.
const MOST: usize = 256 << 20;

/// A thread holds it while it uses the table.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
/// Address and length of each fenced block, oldest first from `NEXT` on.
static FENCED: [(AtomicUsize, AtomicUsize); PLACES] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; PLACES];
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// The tick at which a block was fenced last.
static LAST: AtomicU32 = AtomicU32::new(0);

/// True if the block at `p` is fenced. Another thread may change that at any time.
pub fn has(p: *mut u8) -> bool {
    FENCED.iter().any(|(address, _)| address.load(Relaxed) == p.addr())
}

/// How often a thread asks the clock: at the next free after one that it found in a new tick, else
/// at one of 2, 4, 8 and then 16. All zero bytes are: at the next free.
pub struct Pace {
    /// Frees that do not ask, and those of them that are left.
    skipped: [Cell<u32>; if ON && has::FENCE { 2 } else { 0 }],
}

impl Pace {
    const MOST_SKIPPED: u32 = 15;

    /// True if the thread has to ask the clock.
    #[inline(always)]
    fn is_due(&self) -> bool {
        let Some(left) = self.skipped.last() else { return false };
        let is_due = left.get() == 0;
        left.set(left.get().saturating_sub(1));
        is_due
    }

    /// Notes what the clock said: the last fence was in this tick.
    fn note(&self, is_soon: bool) {
        if let [all, left] = &self.skipped[..] {
            all.set(if is_soon { (2 * all.get() + 1).min(Self::MOST_SKIPPED) } else { 0 });
            left.set(all.get());
        }
    }
}

/// Fences the `len` bytes at `at`, whole system pages, if none was fenced in this tick, as far as
/// the thread with this pace knows. At the level `high`, the tick does not matter. Calls `unfenced`
/// with the address of the block that leaves for it, or with `at` itself.
///
/// An entry of the table is right at any time: a child may be forked in between. A block that the
/// system lets nobody use stays in the table.
#[inline(always)]
pub fn put(at: *mut u8, len: usize, pace: Option<&Pace>, unfenced: impl Fn(*mut u8)) {
    let is_each = policy::HARDENED.get() == Hardened::High as u32;
    if !has::FENCE || !is_each && pace.is_some_and(|pace| !pace.is_due()) {
        return unfenced(at);
    }
    put_if_due(at, len, pace, unfenced);
}

/// [`put`] of a thread that asks the clock.
#[cold]
#[inline(never)]
fn put_if_due(at: *mut u8, len: usize, pace: Option<&Pace>, unfenced: impl Fn(*mut u8)) {
    let now = os::now_ms();
    let is_soon = LAST.load(Relaxed) == now;
    if let Some(pace) = pace {
        pace.note(is_soon);
    }
    let is_each = policy::HARDENED.get() == Hardened::High as u32;
    if is_soon && !is_each || len > MOST / PLACES {
        return unfenced(at);
    }
    let Some(held) = LOCK.try_lock() else { return unfenced(at) };
    LAST.store(now, Relaxed);
    let i = NEXT.load(Relaxed) % PLACES;
    let (address, length) = &FENCED[i];
    let old = address.load(Relaxed);
    if old != 0 && !os::commit(old, length.load(Relaxed)) {
        drop(held);
        return unfenced(at);
    }
    NEXT.store(i + 1, Relaxed);
    address.store(0, Relaxed);
    length.store(len, Relaxed);
    address.store(at.addr(), Relaxed);
    let is_fenced = os::decommit(at.addr(), len);
    if !is_fenced {
        address.store(0, Relaxed);
    }
    drop(held);
    if old != 0 {
        unfenced(os::at(old));
    }
    if !is_fenced {
        unfenced(at);
    }
}

#[cfg(all(test, feature = "hardened", not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_frees_many_asks_less_often_until_a_tick_is_over() {
        let pace = Pace { skipped: Default::default() };
        let frees_until_due = || 1 + (0..1000).take_while(|_| !pace.is_due()).count();
        assert_eq!(frees_until_due(), 1, "the first block");
        for frees in [2, 4, 8, 16, 16] {
            pace.note(true);
            assert_eq!(frees_until_due(), frees);
        }
        pace.note(false);
        assert_eq!([(); 3].map(|()| frees_until_due()), [1; 3]);
    }
}
