//! Whether programs fill huge blocks that asked for huge pages.
//!
//! A fresh block asks before anybody knows how much of it the program will touch. Where it touches
//! a few bytes of each block, the kernel clears 2 MiB for each touch: a block of random length up
//! to 64 MiB of which 64 bytes are written took 900 µs, and 6 without huge pages. So some of the
//! freed blocks that asked are looked at. As long as such a block is not filled, further ones do
//! not ask, but for one in ever more.
//!
//! Rules
//! 1. All words are hints.

use super::density;
use crate::base::sync::{AtomicUsize, Ordering::Relaxed};
use crate::os;

/// The most requests that do not ask, and the most freed blocks that nobody looks at, in a row.
const LONGEST: usize = 63;

/// Events that are passed over: in a row, and what is left of them.
struct Pause(AtomicUsize, AtomicUsize);

impl Pause {
    const fn new() -> Self {
        Self(AtomicUsize::new(0), AtomicUsize::new(0))
    }

    /// True if this event is passed over.
    fn is_on(&self) -> bool {
        let left = self.1.load(Relaxed);
        self.1.store(left.saturating_sub(1), Relaxed);
        left != 0
    }

    /// Passes over about twice as many events as last time, or none.
    fn begin(&self, longer: bool) {
        let events = if longer { (2 * self.0.load(Relaxed) + 1).min(LONGEST) } else { 0 };
        self.0.store(events, Relaxed);
        self.1.store(events, Relaxed);
    }
}

/// Of requests that want huge pages.
static REQUESTS: Pause = Pause::new();
/// Of freed blocks that asked for them.
static LOOKS: Pause = Pause::new();

/// True if a fresh block may ask for huge pages.
pub fn may_ask() -> bool {
    !REQUESTS.is_on()
}

/// True if [`is_sparse`] shall look at the block that is being freed, which asked for huge pages. A
/// look is a call that a filter may not allow.
#[cold]
pub fn wants_look() -> bool {
    os::sees_filters() && !LOOKS.is_on()
}

/// Looks at the `n` bytes at `at`, of a block that asked and is being freed. True if the program
/// touched less than half of it.
#[cold]
pub fn is_sparse(at: usize, n: usize) -> bool {
    let Some(found) = density::of(at, n) else { return false };
    let is_sparse = found.is_low();
    REQUESTS.begin(is_sparse);
    LOOKS.begin(!is_sparse);
    is_sparse
}
