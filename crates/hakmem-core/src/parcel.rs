//! Parcels: freed blocks of one page that travel together to the page's owner.
//!
//! The owner splices a parcel into the page's list without touching its blocks, which lie in the sender's cache and
//! not in its own: it reads and writes one of them, the *anchor*. That is the block which was freed first; it is the
//! last of the list, its first word holds the list's beginning, and its second what else there is to know.
//!
//! ```text
//! word 0 of each block:     anchor → newest → … → second → anchor
//! word 1 of the anchor:     number of blocks, and the next parcel of the chain
//! ```
//!
//! Rules
//! 1. The blocks of a parcel are free, of one page, and belong to who has the anchor.
//! 2. A block of 8 bytes has no second word: it is a parcel by itself, its one word is word 1, and the address by
//!    which it is known is odd.

use crate::os;
use crate::page::Block;
use crate::proto::inbox::Link;
use core::cell::Cell;

/// An anchor, at its address or, for a block of 8 bytes, one above (rule 2).
#[repr(C)]
pub struct Parcel {
    newest: Cell<*mut Block>,
    word1: Cell<u64>,
}

/// Word 1 holds an address in its low 48 bits, which is where programs' addresses end, and the number above.
const ADDRESS: u64 = (1 << 48) - 1;
const ONE: u64 = ADDRESS + 1;

impl Parcel {
    /// A parcel of one block, of `size` bytes.
    ///
    /// # Safety
    /// The block is free and the caller's.
    #[inline]
    pub unsafe fn new(block: *mut Block, size: u32) -> *mut Self {
        let this = block.cast::<Self>();
        // SAFETY: the block is the caller's, and has two words but for rule 2.
        unsafe {
            if !Self::may_grow(size) {
                let this = this.wrapping_byte_add(1);
                (*Self::word1(this)).set(ONE);
                return this;
            }
            (*this).newest.set(block);
            (*this).word1.set(ONE);
        }
        this
    }

    /// False for blocks that travel alone (rule 2).
    #[inline]
    pub fn may_grow(size: u32) -> bool {
        size as usize >= size_of::<Self>()
    }

    fn is_small(this: *mut Self) -> bool {
        this.addr() & 1 != 0
    }

    fn word1(this: *mut Self) -> *const Cell<u64> {
        let offset = core::mem::offset_of!(Self, word1);
        if Self::is_small(this) { this.wrapping_byte_sub(1).cast() } else { this.wrapping_byte_add(offset).cast() }
    }

    /// The anchor.
    #[inline]
    pub fn block(this: *mut Self) -> *mut Block {
        this.map_addr(|a| a & !1).cast()
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The parcel is the caller's and may grow; the block is free, the caller's, and of its page.
    #[inline(always)]
    pub unsafe fn push(this: *mut Self, block: *mut Block) {
        // SAFETY: rule 1.
        unsafe {
            Block::set_next(block, (*this).newest.replace(block));
            (*this).word1.set((*this).word1.get() + ONE);
        }
    }

    /// The number of blocks.
    ///
    /// # Safety
    /// The parcel is the caller's.
    #[inline]
    pub unsafe fn len(this: *mut Self) -> u32 {
        // SAFETY: rule 1.
        unsafe { ((*Self::word1(this)).get() / ONE) as u32 }
    }

    /// Ends the parcel: its blocks are put before `list`. Returns the new list.
    ///
    /// # Safety
    /// The parcel is the caller's, and so is the list, which is of the same page.
    #[inline]
    pub unsafe fn splice(this: *mut Self, list: *mut Block) -> *mut Block {
        let anchor = Self::block(this);
        // SAFETY: rule 1; what the anchor holds is read before it becomes a link.
        unsafe {
            let first = if Self::is_small(this) { anchor } else { (*this).newest.get() };
            Block::set_next(anchor, list);
            first
        }
    }
}

// SAFETY: the address in word 1 is the parcel's own, and changed here alone.
unsafe impl Link for Parcel {
    #[inline]
    unsafe fn next(this: *mut Self) -> *mut Self {
        // SAFETY: the caller owns the parcel.
        os::at(unsafe { (*Self::word1(this)).get() & ADDRESS } as usize).cast()
    }
    #[inline]
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        // SAFETY: the caller owns the parcel.
        unsafe {
            let word1 = &*Self::word1(this);
            word1.set(word1.get() & !ADDRESS | next.expose_provenance() as u64);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use core::ptr::null_mut;
    use std::{vec, vec::Vec};

    const SIZE: usize = 16;

    fn list(mut block: *mut Block) -> Vec<usize> {
        let mut all = vec![];
        while !block.is_null() {
            all.push(block.addr());
            // SAFETY: the test's memory.
            block = unsafe { Block::next(block) };
        }
        all
    }

    #[test]
    fn a_parcel_is_spliced_newest_first_before_what_is_there() {
        let mut memory = [[0u64; SIZE / 8]; 5];
        let [a, b, c, d, old] = memory.each_mut().map(|m| m.as_mut_ptr().cast::<Block>());
        // SAFETY: the test's memory.
        unsafe {
            Block::set_next(old, null_mut());
            let parcel = Parcel::new(a, SIZE as u32);
            let other = Parcel::new(d, SIZE as u32);
            Parcel::push(parcel, b);
            Parcel::set_next(parcel, other);
            Parcel::push(parcel, c);
            assert_eq!((Parcel::next(parcel), Parcel::len(parcel)), (other, 3));
            assert_eq!((Parcel::next(other), Parcel::len(other)), (null_mut(), 1));
            assert_eq!(list(Parcel::splice(parcel, old)), [c, b, a, old].map(|p| p.addr()));
            assert_eq!(list(Parcel::splice(other, null_mut())), [d.addr()]);
        }
    }

    #[test]
    fn a_block_of_one_word_travels_alone_and_leaves_its_neighbour_alone() {
        let mut memory = [0u64, 0x5555, 0];
        let first = memory.as_mut_ptr();
        let (block, old) = (first.cast::<Block>(), first.wrapping_add(2).cast::<Block>());
        // SAFETY: the test's memory.
        unsafe {
            let parcel = Parcel::new(block, 8);
            assert!(!Parcel::may_grow(8));
            assert_eq!((Parcel::block(parcel), Parcel::len(parcel), Parcel::next(parcel)), (block, 1, null_mut()));
            Parcel::set_next(parcel, old.cast());
            assert_eq!((Parcel::next(parcel), Parcel::len(parcel)), (old.cast(), 1));
            assert_eq!(list(Parcel::splice(parcel, old)), [block.addr(), old.addr()]);
            assert_eq!(*first.wrapping_add(1), 0x5555);
        }
    }
}
