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

/// Purges all free memory if that is due for the soft limit. Not if a thread is about to fork or
/// another thread purges.
#[cold]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn keep() {
    held::follow();
    if !held::is_beyond() || !is_welcome() {
        return;
    }
    {
        let Some(held) = Held::attempt() else { return };
        run(&held, os::now_ms(), 0, Pauses::No, &is_welcome);
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
