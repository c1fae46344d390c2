//! Huge pages that hakmem tries: it asks for them in fresh memory although nobody knows yet whether
//! the program fills it.
//!
//! Most programs fill it, and each huge page saves up to 511 page faults. For the others the waste
//! has a bound: 64 MiB of such memory at a time. Where the bound is reached, some memory does not
//! ask. It is the *witness*: the next memory that wants to try looks how much of the witness the
//! program has filled by then. If that is most of it, 64 MiB more may try.
//!
//! Some kinds of memory may not try up to that bound, but only in a part of what is held, or once a
//! witness was found full.
//!
//! Rules
//! 1. All words are hints. A witness may be freed, and its memory another's or none: then it tells
//!    of that. Its two words may be of two witnesses.

use crate::backend::arena::SEGMENT;
use crate::backend::rarely::Rarely;
use crate::backend::{density, held};
use crate::base::sync::{AtomicUsize, Ordering::Relaxed};
use crate::os;

/// The most segments that may try huge pages at a time, before any is found full, and so many more
/// when one is.
const MOST: usize = 32;

/// So many may try them in a part of what is held, however little that is.
const FEW: usize = 8;

/// Segments that try them.
static TRIED: AtomicUsize = AtomicUsize::new(0);

/// Memory of one kind, which programs fill alike.
pub struct Trial {
    /// The most segments that may try, of all kinds together, before a witness told anything.
    least: usize,
    /// The same since the last witness. 0: it was not full, or there was none.
    bound: AtomicUsize,
    /// The address of the witness, and its segments. 0: there is none.
    witness: (AtomicUsize, AtomicUsize),
    /// Requests for a witness. A look at one costs some calls, so there are ever fewer while
    /// witnesses are not full.
    witnesses: Rarely,
}

/// Huge blocks that the program writes before it reads them.
pub static WRITTEN: Trial = Trial::new(MOST);
/// Huge blocks that are to be zero. Programs leave more of such a block untouched.
pub static ZERO: Trial = Trial::new(MOST / 2);
/// Huge blocks of one or two segments where all that try are more than a small part of what is
/// held.
pub static SHORT: Trial = Trial::new(0);
/// The same of those that are to be zero.
pub static SHORT_ZERO: Trial = Trial::new(0);
/// Segments for slots, where pages of small blocks are a quarter of what is in use.
pub static SMALL: Trial = Trial::new(MOST);
/// Other segments for slots that begin with a page.
pub static PAGES: Trial = Trial::new(0);
/// Those that begin with a large block.
pub static LARGE: Trial = Trial::new(0);

impl Trial {
    const fn new(least: usize) -> Self {
        Self {
            least,
            bound: AtomicUsize::new(0),
            witness: (AtomicUsize::new(0), AtomicUsize::new(0)),
            witnesses: Rarely::new(1),
        }
    }

    /// True if the fresh `segments` at `at` may try huge pages. If not, the first `filled` of them
    /// may become the witness, unless that is none. Threads that ask at once may together pass the
    /// bound by what each of them wants.
    pub fn may(&self, at: usize, segments: usize, filled: usize) -> bool {
        self.has_room(segments) || self.may_after_all(at, segments, filled)
    }

    /// True if so many more segments may try huge pages.
    pub fn has_room(&self, segments: usize) -> bool {
        let (tried, mut bound) = (TRIED.load(Relaxed), self.bound.load(Relaxed));
        // What tried since may be gone: no more than 64 MiB may try without a witness.
        if bound > tried + MOST {
            bound = tried + MOST;
            self.bound.store(bound, Relaxed);
        }
        tried + segments <= self.least.max(bound)
    }

    #[cold]
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn may_after_all(&self, at: usize, segments: usize, filled: usize) -> bool {
        let (address, length) = &self.witness;
        let seen = address.swap(0, Relaxed);
        if seen != 0 {
            let found = density::of(seen, length.load(Relaxed) * SEGMENT);
            let is_full = found.is_some_and(density::Density::is_high);
            let bound = if is_full { TRIED.load(Relaxed) + MOST } else { 0 };
            self.bound.store(bound, Relaxed);
            self.witnesses.begin(!is_full);
        }
        if self.has_room(segments) {
            return true;
        }
        // A look is a call that a filter may not allow.
        if !os::sees_filters() {
            return false;
        }
        if filled > 0 && !self.witnesses.passes_over() {
            length.store(filled, Relaxed);
            address.store(at, Relaxed);
        }
        false
    }
}

/// How many segments try huge pages.
#[cfg(test)]
pub fn count() -> usize {
    TRIED.load(Relaxed)
}

/// True if all that try and so many more segments are 16 MiB at most, or a quarter of what is held
/// and 64 MiB at most. So the waste is at most that, whatever the program does.
pub fn is_small_part(segments: usize) -> bool {
    (TRIED.load(Relaxed) + segments) * SEGMENT
        <= (held::bytes() / 4).clamp(FEW * SEGMENT, MOST * SEGMENT)
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
