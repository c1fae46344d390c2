//! Held memory: what may be resident of the memory for blocks, and its limits.
//!
//! Held are the slots that are not CLEAN, whole segments of huge blocks, and of the huge cache.
//! That is an upper bound of what is resident: a program need not touch all of a block, and a page
//! with holes counts as a whole. Metadata does not count.
//!
//! The figure changes only where clean memory is taken or memory is given back, so a program that
//! uses its free memory again does not come here.
//!
//! Rules
//! 1. A caller that takes clean memory calls `take` first, and does without the memory if it says
//!    false. So the figure is never above the hard limit, but for limits that the program lowers.
//! 2. A caller that gives memory back calls `give` afterwards.
//! 3. A purge for the soft limit is due when the figure is above the limit, and above `NEXT`, which
//!    lies a step above what the last such purge left. So a program that lives at the limit takes
//!    at least a step of clean memory between two such purges.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicUsize;
use crate::policy::limits;

/// Held bytes.
#[unsafe(link_section = ".data.hakmem")]
pub static HELD: AtomicUsize = AtomicUsize::new(0);
/// Below so many held bytes no purge is due (rule 3).
#[unsafe(link_section = ".data.hakmem")]
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Times that the hard limit said no.
static SAID_NO: AtomicUsize = AtomicUsize::new(0);
/// Requests that it refused.
pub static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// A step is one in so many bytes of the soft limit, but within these bounds.
const STEPS: usize = 64;
const LEAST_STEP: usize = 1 << 20;
const MOST_STEP: usize = 64 << 20;

/// Held bytes.
pub fn bytes() -> usize {
    HELD.load(Relaxed)
}

/// Notes that the caller is about to take `bytes` of clean memory. False: the hard limit does not
/// allow it.
#[must_use]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn take(bytes: usize) -> bool {
    let hard = limits::hard();
    if hard == usize::MAX {
        HELD.fetch_add(bytes, Relaxed);
        return true;
    }
    // In one step: no other request is refused because of one that is refused itself.
    let within = |held: usize| held.checked_add(bytes).filter(|&held| held <= hard);
    let is_within = HELD.fetch_update(Relaxed, Relaxed, within).is_ok();
    if !is_within {
        SAID_NO.fetch_add(1, Relaxed);
    }
    is_within
}

/// Runs the last attempt of a request. If it fails and the hard limit said no meanwhile, the limit
/// has refused the request. An answer to another thread, while this one finds no memory for another
/// reason, may count too.
pub fn last_attempt<T>(attempt: impl FnOnce() -> Option<T>) -> Option<T> {
    let before = SAID_NO.load(Relaxed);
    let got = attempt();
    if got.is_none() && SAID_NO.load(Relaxed) != before {
        REFUSED.fetch_add(1, Relaxed);
    }
    got
}

/// Requests that the hard limit refused.
pub fn refused() -> usize {
    REFUSED.load(Relaxed)
}

/// Notes that `bytes` of held memory are clean now.
pub fn give(bytes: usize) {
    HELD.fetch_sub(bytes, Relaxed);
}

/// True if the hard limit allows `bytes` more.
pub fn has_room(more: usize) -> bool {
    bytes().saturating_add(more) <= limits::hard()
}

/// True if a purge for the soft limit is due (rule 3).
#[inline(always)]
pub fn is_beyond() -> bool {
    let soft = limits::soft();
    soft != usize::MAX && bytes() > soft.max(NEXT.load(Relaxed))
}

/// Notes that such a purge is done.
pub fn note_purged() {
    NEXT.store(bytes() + step(), Relaxed);
}

/// Follows a figure that has become less, so that the next purge is due a step above it again.
pub fn follow() {
    let next = NEXT.load(Relaxed);
    if next != 0 && bytes() + step() < next {
        note_purged();
    }
}

fn step() -> usize {
    (limits::soft() / STEPS).clamp(LEAST_STEP, MOST_STEP)
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::policy;
    use crate::testing::in_child;

    const MIB: usize = 1 << 20;

    #[test]
    fn between_two_purges_lies_a_step() {
        in_child(|| {
            let taken = |mib| assert!(take(mib * MIB));
            give(bytes());
            taken(200);
            assert!(!is_beyond(), "there is no limit");
            policy::SOFT_LIMIT_MIB.set(128);
            assert!(is_beyond());
            // All of it is live: nothing went back.
            note_purged();
            assert!(!is_beyond());
            taken(2);
            assert!(!is_beyond(), "a step is 2 MiB");
            assert!(take(1));
            assert!(is_beyond());
            note_purged();
            // The program frees half, and takes it again: from the limit on a purge is due.
            give(100 * MIB);
            follow();
            taken(25);
            assert!(!is_beyond());
            taken(2);
            assert!(is_beyond());
        });
    }

    #[test]
    fn the_hard_limit_is_exact() {
        in_child(|| {
            give(bytes());
            policy::HARD_LIMIT_MIB.set(3);
            assert!(take(3 * MIB) && !take(1) && !has_room(1) && has_room(0));
            assert_eq!(bytes(), 3 * MIB, "what was refused does not count");
            give(1);
            assert!(take(1) && !take(1));
            policy::HARD_LIMIT_MIB.set(0);
            assert!(take(usize::MAX / 4));
        });
    }
}
