//! Held memory: what may be resident of the memory for blocks, and its limits.
//!
//! Held are the slots that are not CLEAN, whole segments of huge blocks, and of the huge cache. That
//! is an upper bound of what is resident: a program need not touch all of a block, and a page with
//! holes counts as a whole. Metadata does not count.
//!
//! The figure changes only where clean memory is taken or memory is given back, so a program that
//! uses its free memory again does not come here.
//!
//! Rules
//! 1. Who takes clean memory calls `take` first, and does without the memory if it says false. So
//!    the figure is never above the hard limit, but for limits that the program lowers.
//! 2. Who gives memory back calls `give` afterwards.
//! 3. A purge for the soft limit is due when the figure is above the limit, and above `NEXT`, which
//!    lies a step above what the last such purge left. So a program that lives at the limit takes at
//!    least a step of clean memory between two such purges.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicUsize;
use crate::policy::limits;

/// Held bytes.
#[unsafe(link_section = ".data.hakmem")]
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Below so many held bytes no purge is due (rule 3).
static NEXT: AtomicUsize = AtomicUsize::new(0);

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
pub fn take(bytes: usize) -> bool {
    let before = HELD.fetch_add(bytes, Relaxed);
    let is_allowed = before.saturating_add(bytes) <= limits::hard();
    if !is_allowed {
        give(bytes);
    }
    is_allowed
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
