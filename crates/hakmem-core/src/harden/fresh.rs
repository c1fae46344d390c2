//! Marks: which free blocks above `SMALL_MAX` lie in memory that nobody has touched.
//!
//! To read such memory would map the system's page of zeroes. The program's first write would then
//! fault again, and interrupt the other processors. So a block that is carved from untouched memory
//! gets a mark, and is not checked when it is handed out. The mark is the block's third word. It
//! depends on the secret and the address, so that a write after a free cannot make it.
//!
//! All other free blocks are checked whole. So are those whose memory went back to the system: a
//! dangling pointer may have written to them since.

use crate::base::size_class::SMALL_MAX;
use crate::harden::ON;
use crate::harden::key::{mask, spread};

/// The word that is the mark. A batch of remote frees uses it as its seal, and clears it.
const WORD: usize = 2;

/// The mark of the block at `p`: not the number that its tag has, nor the word of a link there, so
/// that no copy of them is a mark.
#[inline(always)]
fn of(p: *mut u8) -> usize {
    spread(spread(mask(p.addr())))
}

/// Marks the block at `p`, if blocks of `room` bytes have marks.
///
/// # Safety
/// The caller has the block, which is free.
#[inline(always)]
pub unsafe fn mark(p: *mut u8, room: usize) {
    if ON && room > SMALL_MAX {
        // SAFETY: the word lies in the block, which the caller has.
        unsafe { p.cast::<usize>().wrapping_add(WORD).write(of(p)) }
    }
}

/// Takes the mark of the block at `p` away. False: it has none.
///
/// # Safety
/// The caller has the block, which is longer than `SMALL_MAX`.
#[inline(always)]
pub unsafe fn take(p: *mut u8) -> bool {
    let place = p.cast::<usize>().wrapping_add(WORD);
    // SAFETY: the word lies in the block, which the caller has.
    unsafe {
        let is_fresh = place.read() == of(p);
        if is_fresh {
            place.write(0);
        }
        is_fresh
    }
}

#[cfg(all(test, feature = "hardened", not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    #[test]
    fn a_mark_is_taken_once_and_nothing_else_is_one() {
        let mut memory = vec![0_u64; 2 * SMALL_MAX / 8];
        let p = memory.as_mut_ptr().cast::<u8>();
        crate::harden::key::draw();
        assert_ne!(of(p), crate::harden::key::encoded(p.addr(), 0));
        // SAFETY: the test's memory.
        unsafe {
            assert!(!take(p), "zero is none");
            mark(p, SMALL_MAX);
            assert!(!take(p), "a small block has none");
            mark(p, SMALL_MAX + 64);
            assert!(take(p) && !take(p));
            for word in [1, usize::MAX, mask(p.addr())] {
                p.cast::<usize>().wrapping_add(WORD).write(word);
                assert!(!take(p), "{word}");
                p.cast::<usize>().wrapping_add(WORD).write(0);
            }
        }
        assert!(memory.iter().all(|&word| word == 0), "one word alone is written");
    }
}
