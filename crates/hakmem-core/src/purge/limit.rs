//! The soft limit: a slow path that takes clean memory beyond it purges all free memory, whatever
//! its decay, before the program touches what it got.
//!
//! The thread itself gives up what is free in its own heap (`api::front`), in idle heaps and in no
//! heap. What the heaps of sleeping threads keep is for the scavenger, because only that may pause
//! them: it makes a pass at once.
//!
//! The cost: such a pass takes O(groups + purged pieces) and a system call for each run of slots
//! that goes back. `backend::held` rule 3 says that between two of them the program took a step of
//! clean memory, at least 1 MiB. So a slot that is taken pays for a sixteenth of a pass at most,
//! and for one slot that goes back, beside its own 16 page faults.

use super::{Held, is_welcome, run, scavenger};
use crate::backend::held;
use crate::base::sync::{Ordering::Relaxed, plain::AtomicBool};
use crate::heap::reclaim::sleeping::Pauses;
use crate::os;

/// True if the scavenger has to make a pass without decay.
static URGENT: AtomicBool = AtomicBool::new(false);

/// So long the program waits for a pass of another thread, the scavenger's mostly. Else it would
/// pass its limit while that pass goes on. What has become due is then purged by the program
/// itself.
const MOST_MS: u32 = 100;

/// Purges all free memory if that is due for the soft limit. Not if a thread is about to fork.
#[cold]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn keep() {
    keep_within(MOST_MS);
}

/// [`keep`], which waits for so many milliseconds.
fn keep_within(ms: u32) {
    held::follow();
    if !held::is_beyond() || !is_welcome() {
        return;
    }
    {
        let held = Held::within(ms);
        // The other thread may have purged enough, or may have ended its pass for a fork.
        held::follow();
        if !held::is_beyond() || !is_welcome() {
            return;
        }
        let Some(held) = held else {
            // The next wait comes a step later: who has the lock may never release it.
            return held::note_purged();
        };
        run(&held, os::now_ms(), 0, Pauses::No, &is_welcome);
        if !is_welcome() {
            return; // It was cut short.
        }
        held::note_purged();
    }
    URGENT.store(true, Relaxed);
    scavenger::hurry();
}

/// True after a purge for the soft limit, until [`begin_urgent`].
pub fn is_urgent() -> bool {
    URGENT.load(Relaxed)
}

/// Begins such a pass, if one is due.
pub fn begin_urgent() -> bool {
    is_urgent() && URGENT.swap(false, Relaxed)
}

// Miri has no fork, and models have their own fork.
#[cfg(all(test, not(any(miri, loom, shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use crate::api::c;
    use crate::policy;
    use crate::purge::{LOCK, PURGED};
    use crate::testing::{BEHIND, in_child};
    use std::vec::Vec;

    const OTHER: u32 = 9;

    /// Free memory beyond a limit, and a pass of another thread.
    fn beyond() {
        policy::SCAVENGE_MIB.set(0);
        core::mem::forget(LOCK.lock_as(OTHER));
        // SAFETY: each block has at least one byte, and is freed once.
        unsafe {
            let blocks: Vec<_> = (0..64).map(|_| c::malloc((300 << 10) - BEHIND)).collect();
            for p in blocks {
                p.write(1);
                c::free(p);
            }
        }
        policy::SOFT_LIMIT_MIB.set(1);
    }

    /// Another thread is in the middle of a pass, and has looked at what is freed now.
    #[test]
    fn the_limit_is_kept_beside_the_pass_of_another_thread() {
        in_child(|| {
            beyond();
            let (before, is_over) = (PURGED.load(Relaxed), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !LOCK.is_waited_for() && !is_over.load(Relaxed) {
                        std::thread::yield_now();
                    }
                    LOCK.release();
                });
                keep_within(60_000);
                is_over.store(true, Relaxed);
            });
            assert!(PURGED.load(Relaxed) > before);
        });
    }

    /// A child that was made without the fork handlers has the lock of a thread that is not there.
    #[test]
    fn a_wait_in_vain_is_not_repeated_at_once() {
        in_child(|| {
            beyond();
            assert!(held::is_beyond());
            keep_within(1);
            assert!(!held::is_beyond() && LOCK.is_held_by(OTHER));
        });
    }
}
