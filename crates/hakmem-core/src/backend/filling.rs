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
use super::rarely::Rarely;
use crate::os;

/// Of requests that want huge pages.
static REQUESTS: Rarely = Rarely::new(1);
/// Of freed blocks that asked for them.
static LOOKS: Rarely = Rarely::new(1);

/// True if a fresh block may ask for huge pages.
pub fn may_ask() -> bool {
    !REQUESTS.passes_over()
}

/// True if [`is_sparse`] is to look at the block that is being freed, which asked for huge pages. A
/// look is a call that a filter may not allow.
#[cold]
pub fn wants_look() -> bool {
    os::sees_filters() && !LOOKS.passes_over()
}

/// Looks at the `n` bytes at `at`, of a block that asked and is being freed. True if the program
/// touched less than half of it.
#[cold]
pub fn is_sparse(at: usize, n: usize) -> bool {
    let Some(found) = density::of(at, n) else {
        // The system does not tell. It hardly will for the next block.
        LOOKS.begin(true);
        return false;
    };
    let is_sparse = found.is_low();
    REQUESTS.begin(is_sparse);
    LOOKS.begin(!is_sparse);
    is_sparse
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;
    use crate::testing::in_child;

    /// Where the system does not tell, hakmem asks ever more rarely.
    #[test]
    fn a_look_in_vain_is_not_repeated_at_once() {
        in_child(|| {
            // No process has memory there.
            let nowhere = 1 << 60;
            assert!(density::of(nowhere, 2 << 20).is_none());
            for row in [1, 3, 7] {
                assert!(!is_sparse(nowhere, 2 << 20));
                assert!((0..row).all(|_| LOOKS.passes_over()) && !LOOKS.passes_over());
            }
        });
    }
}
