//! Who owns a page: a heap, or the part of the allocator that holds pages which no heap has (`parked`).
//!
//! A page names its owner by the address of an [`Owner`], with which a heap begins. Any thread may read that word and reach the
//! owner's inbox. The lists are for the thread alone that has the heap.
//!
//! Rules
//! 1. An owner is for ever: a word that was read from a page may be followed at any time.
//! 2. `front` belongs to the thread that has the heap. `inbox` is anybody's.

use crate::backend::check;
use crate::backend::page::{Block, Meta};
use crate::backend::remote_batch::RemoteBatch;
use crate::base::size_class::{CLASSES, TABLE16};
use crate::proto::inbox::{Inbox, Link};
use core::cell::Cell;
use core::ptr::null_mut;

/// Heaps are 8 KiB apart; a heap's number is its address in such units.
pub const HEAP_SHIFT: u32 = 13;

/// What the fast path reads: a thread's word points to one.
#[repr(C)]
pub struct Front {
    /// The list of each class.
    pub free: [Cell<*mut Block>; CLASSES],
    /// `size_class::CLASS16`.
    pub class16: [u8; TABLE16],
}

/// A line of cache, for what other threads write, with the line beside it, which processors fetch along.
#[repr(align(128))]
struct Line<T>(T);

/// The beginning of a heap: where its thread finds free blocks, and where other threads put those of its pages.
#[repr(C)]
pub struct Owner {
    /// First, so that a thread's word and a page's owner are one address: `free` compares them.
    pub front: Front,
    inbox: Line<Inbox<RemoteBatch>>,
}

// SAFETY: other threads reach the inbox alone, which is made for that. The lists are for the thread that has the heap (rule 2).
unsafe impl Sync for Owner {}

impl Owner {
    /// An owner that is no thread's.
    pub const fn new() -> Self {
        let front = Front { free: [const { Cell::new(null_mut()) }; CLASSES], class16: [0; TABLE16] };
        Self { front, inbox: Line(Inbox::new()) }
    }

    /// Where other threads put the blocks that they free.
    pub fn inbox(&self) -> &Inbox<RemoteBatch> {
        &self.inbox.0
    }

    /// Empties the inbox. Puts the blocks of each batch on the list of their page and counts its countdown down by them;
    /// then calls `received` with the page, the number of blocks, and the address of one. O(batches).
    ///
    /// A page may have changed its owner while the batch was in flight (`page` rule 1). Such a batch goes to the inbox of
    /// the owner that the page has now.
    ///
    /// # Safety
    /// The caller is the owner: the thread that has the heap, or the holder of the lock of parked pages.
    #[inline(always)]
    pub unsafe fn merge(&self, mut received: impl FnMut(&'static Meta, u32, *mut u8)) -> u64 {
        let (mut batch, mut batches) = (self.inbox().take(), 0);
        while !batch.is_null() {
            let block = RemoteBatch::block(batch);
            // SAFETY: `take` made the batch this caller's (`remote_batch` rule 1), who reads it no more once it is passed
            // on or opened. The page is the caller's to change if the caller owns it; its owner's inbox is for ever (rule 1).
            unsafe {
                let page = RemoteBatch::page(batch);
                let owner = page.owner();
                if owner != self.as_word() {
                    if check::CHECKED && owner.is_null() {
                        check::corrupt(block.cast());
                    }
                    let next = RemoteBatch::next(batch);
                    inbox_of(owner).push_chain(batch, batch);
                    batch = next;
                    continue;
                }
                if RemoteBatch::is_block(batch) {
                    check::check_carved(block, page);
                }
                let (length, next) = RemoteBatch::open(batch, page);
                page.until_slow.set(page.until_slow.get() - length as i32);
                received(page, length, block.cast());
                batch = next;
            }
            batches += 1;
        }
        batches
    }

    /// As pages name it.
    #[inline]
    pub fn as_word(&self) -> *mut Self {
        core::ptr::from_ref(self).cast_mut()
    }
}

/// The inbox of an owner of pages.
///
/// # Safety
/// `owner` was read from a page that had one.
pub unsafe fn inbox_of(owner: *mut Owner) -> &'static Inbox<RemoteBatch> {
    // SAFETY: rule 1. `front` is not touched (rule 2).
    unsafe { &(*owner).inbox.0 }
}
