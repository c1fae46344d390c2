//! A free block: its first word is the link of its list.

use crate::backend::check;
use crate::base::word::Word;
use crate::harden;
use crate::proto::inbox::Link;

/// A free block.
#[repr(C)]
pub struct Block {
    /// The next block of the list. Null: this is the last one.
    pub next: Word<*mut Block>,
}

// SAFETY: `next` and `set_next` read and write one word, the first of the block, and nothing else
// does while the block is free.
unsafe impl Link for Block {
    unsafe fn next(this: *mut Self) -> *mut Self {
        // SAFETY: the caller owns the block, so no other thread reads or writes this word.
        let next = unsafe { Self::decoded(this, (*this).next.get()) };
        if harden::ON && !next.is_null() && !harden::key::is_near(this.addr(), next.addr()) {
            check::corrupt(this.cast());
        }
        next
    }
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        // SAFETY: the caller owns the block, so no other thread reads or writes this word.
        unsafe { (*this).next.set(Self::encoded(this, next)) }
    }
}

impl Block {
    /// The link that `word` stands for in the block at `this`.
    #[inline(always)]
    pub fn decoded(this: *mut Self, word: *mut Self) -> *mut Self {
        if harden::has::LINKS {
            word.map_addr(|word| harden::key::decoded(this.addr(), word))
        } else {
            word
        }
    }

    /// The word that stands for a link to `next` in the block at `this`.
    #[inline(always)]
    fn encoded(this: *mut Self, next: *mut Self) -> *mut Self {
        if harden::has::LINKS {
            next.map_addr(|next| harden::key::encoded(this.addr(), next))
        } else {
            next
        }
    }
}
