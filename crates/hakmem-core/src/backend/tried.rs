//! Huge pages that hakmem tries: it asks for them in fresh memory although nobody knows yet whether
//! the program fills it.
//!
//! Most programs fill it, and each huge page saves up to 511 page faults. For the others the waste
//! has a bound: 64 MiB of such memory at a time.

use crate::base::sync::{AtomicUsize, Ordering::Relaxed};

/// The most segments that may try huge pages at a time.
const MOST: usize = 32;
/// The same where a block shall be zero: programs leave more of such a block untouched.
const MOST_FOR_ZERO: usize = 16;

/// Segments that try them.
static TRIED: AtomicUsize = AtomicUsize::new(0);

/// True if so many more segments may try huge pages. Threads that ask at once may together pass the
/// bound by what each of them wants.
pub fn has_room(segments: usize) -> bool {
    TRIED.load(Relaxed) + segments <= MOST
}

/// True if so many more may for a block that shall be zero, beside all that try them already.
pub fn has_room_for_zero(segments: usize) -> bool {
    TRIED.load(Relaxed) + segments <= MOST_FOR_ZERO
}

/// How many segments try huge pages.
#[cfg(test)]
pub fn count() -> usize {
    TRIED.load(Relaxed)
}

/// So many segments try huge pages.
pub fn take(segments: usize) {
    TRIED.fetch_add(segments, Relaxed);
}

/// So many segments do so no more. In the child of a fork the count may be too low: another thread
/// may have been between its call of [`take`] and its note of that. So it stops at 0.
pub fn give(segments: usize) {
    _ = TRIED.fetch_update(Relaxed, Relaxed, |tried| Some(tried.saturating_sub(segments)));
}
