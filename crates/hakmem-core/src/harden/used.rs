//! Marks: which free blocks above `SMALL_MAX` were live before.
//!
//! A fresh block may lie in memory that nobody has touched. To read it there would map the system's
//! page of zeroes, and the program's first write would fault again and interrupt the other
//! processors. So only blocks that were live before are checked. The third word of such a block is
//! the mark while the block is free: it is not zero, and depends on the secret and the address.
//! (The second word is zero: a batch of remote frees uses it.)
//!
//! A write after the free of a mark's own zero hides the block. Any other write there is found.

use crate::harden::key::mask;

/// The word that is the mark.
const WORD: usize = 2;

/// What a mark says of a free block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Was {
    /// It is new.
    Fresh,
    /// It was live before.
    Used,
    /// Something else was written there.
    Broken,
}

/// Marks the block at `p`.
///
/// # Safety
/// The caller has the block, which is free and longer than `SMALL_MAX`.
#[inline(always)]
pub unsafe fn set(p: *mut u8) {
    // SAFETY: the word lies in the block, which the caller has.
    unsafe { p.cast::<usize>().wrapping_add(WORD).write(mask(p.addr())) }
}

/// Takes the mark of the block at `p` away, if it has one.
///
/// # Safety
/// As [`set`].
#[inline(always)]
pub unsafe fn take(p: *mut u8) -> Was {
    let place = p.cast::<usize>().wrapping_add(WORD);
    // SAFETY: the word lies in the block, which the caller has.
    unsafe {
        match place.read() {
            0 => Was::Fresh,
            word if word == mask(p.addr()) => {
                place.write(0);
                Was::Used
            }
            _ => Was::Broken,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_taken_once_and_a_change_of_it_is_seen() {
        let mut memory = [0_u64; 8];
        let p = memory.as_mut_ptr().cast::<u8>();
        crate::harden::key::draw();
        // SAFETY: the test's memory.
        unsafe {
            assert_eq!(take(p), Was::Fresh);
            p.cast::<u64>().wrapping_add(WORD).write(1);
            assert_eq!(take(p), Was::Broken);
            if crate::harden::ON {
                set(p);
                assert_eq!(take(p), Was::Used);
                assert_eq!(take(p), Was::Fresh);
            }
        }
        let before = &mut memory[..WORD];
        assert!(before.iter().all(|&word| word == 0), "link and batch have words of their own");
    }
}
