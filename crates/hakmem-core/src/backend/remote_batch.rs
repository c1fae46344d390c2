//! Batches: freed blocks of one page that travel together to the page's owner.
//!
//! The owner splices a batch into the page's list without touching its blocks, which lie in the sender's cache and
//! not in its own: it reads and writes one of them, the *anchor*. That is the block which was freed first; it is the
//! last of the list, its first word holds the list's beginning, and its second what else there is to know.
//!
//! ```text
//! word 0 of each block:     anchor → newest → … → second → anchor
//! word 1 of the anchor:     number of blocks, and the next batch of the chain
//! ```
//!
//! Rules
//! 1. The blocks of a batch are free, of one page, and belong to who has the anchor.
//! 2. Blocks of 8 bytes have no second word. They go into their page's page list, which travels in place of a batch: known
//!    by the address of the page's metadata, plus one, and linked by a word there. So a freed block of 8 bytes holds
//!    nothing but a link to another one of its page: freed twice, it is on two lists, and neither leads astray.

use crate::backend::page::{self, Block, Meta};
use crate::backend::{arena, check};
use crate::os;
use crate::proto::inbox::{Inbox, Link};
use core::cell::Cell;

/// An anchor, or what stands for a page's page list (rule 2).
#[repr(C)]
pub struct RemoteBatch {
    newest: Cell<*mut Block>,
    word1: Cell<u64>,
}

/// Word 1 holds an address in its low 48 bits, which is where programs' addresses end, and the number above.
const ADDRESS: u64 = (1 << 48) - 1;
const ONE: u64 = ADDRESS + 1;

impl RemoteBatch {
    /// A batch of one block.
    ///
    /// # Safety
    /// The block is free, the caller's, and of a size that [`RemoteBatch::fits`].
    #[inline]
    pub unsafe fn new(block: *mut Block) -> *mut Self {
        let this = block.cast::<Self>();
        // SAFETY: the block is the caller's, and has two words.
        unsafe {
            (*this).newest.set(block);
            (*this).word1.set(ONE);
        }
        this
    }

    /// False for blocks that go by the page list (rule 2).
    #[inline]
    pub fn fits(size: u32) -> bool {
        size as usize >= size_of::<Self>()
    }

    /// Sends a block by its page's page list. True: that was empty, and is under way from now on.
    ///
    /// # Safety
    /// The block is free, the caller's, of `page` and of a size that does not [`RemoteBatch::fits`].
    #[cold]
    pub unsafe fn send_by_page_list(page: &Meta, block: *mut Block, inbox: &Inbox<Self>) -> bool {
        if check::CHECKED && page.remote_list.first() == block {
            check::double_free(block.cast(), page);
        }
        // SAFETY: passed on; the page list is this thread's to send if it was empty (`proto::page_list` rule 2).
        unsafe {
            if !page.remote_list.add(block) {
                return false;
            }
            let this = page.raw().wrapping_byte_add(1).cast();
            inbox.push_chain(this, this);
        }
        true
    }

    /// Sends a block by itself.
    ///
    /// # Safety
    /// The block is free, the caller's, and of `page`.
    pub unsafe fn send_one(page: &Meta, block: *mut Block, inbox: &Inbox<Self>) {
        // SAFETY: passed on; a chain of one batch of one block, which is the caller's (rule 1).
        unsafe {
            if !Self::fits(page.block_size.get()) {
                Self::send_by_page_list(page, block, inbox);
                return;
            }
            let this = Self::new(block);
            inbox.push_chain(this, this);
        }
    }

    /// The page of which it is the page list.
    #[inline]
    fn of_list(this: *mut Self) -> Option<&'static Meta> {
        (this.addr() & 1 != 0).then(|| Self::page_of_list(this))
    }

    /// As `of_list`, for an odd address. Ends the process if an anchor was written over, and this is no page list.
    #[cold]
    #[inline(never)]
    fn page_of_list(this: *mut Self) -> &'static Meta {
        let meta = this.wrapping_byte_sub(1).cast::<Meta>();
        if check::CHECKED && !arena::is_meta(meta.addr()) {
            check::corrupt(this.cast());
        }
        // SAFETY: an odd address is one more than a page's metadata (rule 2), which is for ever.
        unsafe { &*meta }
    }

    /// False for a page list.
    #[inline]
    pub fn is_block(this: *mut Self) -> bool {
        this.addr() & 1 == 0
    }

    /// The anchor; for a page list, nothing but an address to name.
    #[inline]
    pub fn block(this: *mut Self) -> *mut Block {
        this.cast()
    }

    /// The block that was added last.
    ///
    /// # Safety
    /// The batch is the caller's and no page list.
    #[inline(always)]
    pub unsafe fn newest(this: *mut Self) -> *mut Block {
        // SAFETY: rule 1.
        unsafe { (*this).newest.get() }
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The batch is the caller's and no page list; the block is free, the caller's, and of its page.
    #[inline(always)]
    pub unsafe fn push(this: *mut Self, block: *mut Block) {
        // SAFETY: rule 1.
        unsafe {
            Block::set_next(block, (*this).newest.replace(block));
            (*this).word1.set((*this).word1.get() + ONE);
        }
    }

    /// The page that the blocks are of. Ends the process if the anchor was written over.
    ///
    /// # Safety
    /// The batch is the caller's.
    #[inline]
    pub unsafe fn page(this: *mut Self) -> &'static Meta {
        if let Some(page) = Self::of_list(this) {
            if check::CHECKED && page.remote_list.first().is_null() {
                check::corrupt(page.start());
            }
            return page;
        }
        let Some(slot) = page::lookup(this.cast()) else { check::corrupt(this.cast()) };
        // SAFETY: rule 1.
        if check::CHECKED && unsafe { (*this).word1.get() } < ONE {
            check::corrupt(this.cast()); // It might lead back to itself.
        }
        slot.head_of_block()
    }

    /// Ends the batch: its blocks are put before those of the page's list. Returns their number, and the next batch of
    /// the chain.
    ///
    /// # Safety
    /// The batch is the caller's, and so is the page, which is its page.
    #[inline]
    pub unsafe fn open(this: *mut Self, page: &Meta) -> (u32, *mut Self) {
        if Self::of_list(this).is_some() {
            return Self::open_list(page);
        }
        // SAFETY: rule 1; what the anchor holds is read before it becomes a link.
        unsafe {
            let (first, next) = ((*this).newest.get(), Self::next(this));
            let length = ((*this).word1.get() / ONE) as u32;
            Block::set_next(this.cast(), page.free.replace(first));
            (length, next)
        }
    }

    /// The same for a page list. Each block is looked at: the program may have freed one twice, or written to it since.
    #[cold]
    #[inline(never)]
    fn open_list(page: &Meta) -> (u32, *mut Self) {
        let (next, first) = page.remote_list.open(|| page.remote_link.get().cast());
        let length = check::count(first, page);
        let mut last = first;
        // SAFETY: the blocks are the caller's, and of the page, as has been looked at.
        unsafe {
            for _ in 1..length {
                last = Block::next(last);
            }
            Block::set_next(last, page.free.replace(first));
        }
        (length, next)
    }
}

// SAFETY: the address in word 1, and the page list's link, are the batch's own and changed here alone.
unsafe impl Link for RemoteBatch {
    #[inline]
    unsafe fn next(this: *mut Self) -> *mut Self {
        if let Some(page) = Self::of_list(this) {
            return page.remote_link.get().cast();
        }
        // SAFETY: the caller owns the batch.
        os::at(unsafe { (*this).word1.get() & ADDRESS } as usize).cast()
    }
    #[inline]
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        if let Some(page) = Self::of_list(this) {
            return page.remote_link.set(next.cast());
        }
        // SAFETY: the caller owns the batch.
        unsafe {
            let word1 = &(*this).word1;
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

    /// A page without blocks.
    fn page() -> Meta {
        // SAFETY: all zero bytes are one.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn a_batch_is_opened_newest_first_before_what_is_there() {
        let mut memory = [[0u64; SIZE / 8]; 5];
        let [a, b, c, d, old] = memory.each_mut().map(|m| m.as_mut_ptr().cast::<Block>());
        let page = page();
        // SAFETY: the test's memory.
        unsafe {
            Block::set_next(old, null_mut());
            page.free.set(old);
            let batch = RemoteBatch::new(a);
            let other = RemoteBatch::new(d);
            RemoteBatch::push(batch, b);
            RemoteBatch::set_next(batch, other);
            RemoteBatch::push(batch, c);
            assert_eq!(RemoteBatch::open(batch, &page), (3, other));
            assert_eq!(list(page.free.get()), [c, b, a, old].map(|p| p.addr()));
            page.free.set(null_mut());
            assert_eq!(RemoteBatch::open(other, &page), (1, null_mut()));
            assert_eq!(list(page.free.get()), [d.addr()]);
        }
    }
}
