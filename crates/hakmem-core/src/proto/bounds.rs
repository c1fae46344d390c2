//! Where the first arena lies, as the fast path of `free` reads it: without a lock, and without an order among the words.
//!
//! A pointer is the arena's if its distance from `data` is below `limit`. The words are written while other threads may be
//! freeing pointers that are not ours (NULL, say), so a reader may find any mixture of old words and new ones.
//!
//! Rules
//! 1. All are written once, under the arena's lock, before the first block is handed out: who holds a block of the arena got
//!    it from somebody who had it, and reads what was written.
//! 2. The limit is lowered when the arena's end is given up, in which there is no block.
//! 3. The words from before the writing let nothing in, with whatever limit: `data` is then a value that is further from any
//!    pointer than an arena is long. With the true `data`, only addresses of the arena are let in, with whatever limit. So
//!    nobody reads `metas` but who holds a block, and no word needs an order.

use crate::base::sync::{
    Ordering::{Relaxed, Release},
    const_new,
    plain::{AtomicPtr, AtomicUsize},
};
use core::ptr::null_mut;

/// Bounds, in one line; nothing that is written lies in the line beside it, which processors fetch along.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Bounds {
    data: AtomicUsize,
    limit16: AtomicUsize,
    limit: AtomicUsize,
    metas: AtomicPtr<u8>,
}

/// Further from any pointer than an arena is long (rule 3).
const NOWHERE: usize = 1 << (usize::BITS - 1);

impl Default for Bounds {
    fn default() -> Self {
        Self::new()
    }
}

impl Bounds {
    const_new! {
        /// Of no arena yet.
        pub fn new() -> Self {
            Self {
                data: AtomicUsize::new(NOWHERE),
                limit16: AtomicUsize::new(0),
                limit: AtomicUsize::new(0),
                metas: AtomicPtr::new(null_mut()),
            }
        }
    }

    /// Address of the first page.
    #[inline(always)]
    pub fn data(&self) -> usize {
        self.data.load(Relaxed)
    }

    /// Sixteenths of the bytes of pages, so that a pointer rotated by four bits shows with one comparison that it is
    /// in range and a multiple of 16.
    #[inline(always)]
    pub fn limit16(&self) -> usize {
        self.limit16.load(Relaxed)
    }

    /// Bytes of pages.
    #[inline(always)]
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Metadata of the first page.
    #[inline(always)]
    pub fn metas(&self) -> *mut u8 {
        self.metas.load(Relaxed)
    }

    /// The distance of an address from the first page, if that is below the limit.
    #[inline(always)]
    pub fn offset(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.data());
        (offset < self.limit()).then_some(offset)
    }

    /// Rule 1's writing.
    pub fn set(&self, metas: *mut u8, data: usize, bytes: usize) {
        self.metas.store(metas, Release);
        self.data.store(data, Release);
        self.set_limit(bytes);
    }

    /// Rule 2's.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Release);
        self.limit16.store(bytes / 16, Release);
    }
}

/// Offsets of the words, for code in assembly.
pub mod offsets {
    use super::Bounds;
    use core::mem::offset_of;

    /// Of `Bounds::data`.
    pub const DATA: usize = offset_of!(Bounds, data);
    /// Of `Bounds::limit16`.
    pub const LIMIT16: usize = offset_of!(Bounds, limit16);
    /// Of `Bounds::limit`.
    pub const LIMIT: usize = offset_of!(Bounds, limit);
    /// Of `Bounds::metas`.
    pub const METAS: usize = offset_of!(Bounds, metas);
}
