//! Where the first arena lies. The fast path of `free` reads this, without a lock and without
//! order.
//!
//! ```text
//! data                                     data + limit
//!   │ pages …                                   │
//!   p is the arena's if p - data < limit (a wrapping subtraction)
//! ```
//!
//! A thread writes the words while others may free foreign pointers, or NULL. So a reader may find
//! any mixture of old and new words.
//!
//! Rules
//! 1. One thread writes all words once, under the arena's lock, before it allocates the first
//!    block. A thread that has a block of the arena got it from that thread, perhaps by way of
//!    others. So it reads the new words.
//! 2. A thread lowers the limit when it gives the arena's end back, where no block is.
//! 3. The old `data` is further from any pointer than an arena is long. So with it a reader takes
//!    no pointer for the arena's, whatever limit it finds. With the new `data` it takes only
//!    addresses of the arena, whatever limit it finds. So a thread without a block of the arena
//!    never uses `metas`, and no word needs an order.
//!
//! Model: `tests/loom/bounds.rs`.

use crate::base::sync::{
    Ordering::{Relaxed, Release},
    const_new,
    plain::{AtomicPtr, AtomicUsize},
};
use core::ptr::null_mut;

/// The four words, in one cache line. Processors fetch the line beside it too, so the alignment
/// keeps words that threads write out of that line.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Bounds {
    data: AtomicUsize,
    limit16: AtomicUsize,
    limit: AtomicUsize,
    metas: AtomicPtr<u8>,
}

/// The value of `data` before there is an arena (rule 3).
const NOWHERE: usize = 1 << (usize::BITS - 1);

impl Default for Bounds {
    fn default() -> Self {
        Self::new()
    }
}

impl Bounds {
    const_new! {
        /// The bounds before there is an arena.
        pub fn new() -> Self {
            Self {
                data: AtomicUsize::new(NOWHERE),
                limit16: AtomicUsize::new(0),
                limit: AtomicUsize::new(0),
                metas: AtomicPtr::new(null_mut()),
            }
        }
    }

    /// The address of the first page.
    #[inline(always)]
    pub fn data(&self) -> usize {
        self.data.load(Relaxed)
    }

    /// A sixteenth of the limit. If an offset rotated right by four bits is below it, the offset is
    /// in range and a multiple of 16.
    #[inline(always)]
    pub fn limit16(&self) -> usize {
        self.limit16.load(Relaxed)
    }

    /// The length of the arena's pages in bytes.
    #[inline(always)]
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// The metadata of the first page.
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

    /// Writes all words (rule 1).
    pub fn set(&self, metas: *mut u8, data: usize, bytes: usize) {
        self.metas.store(metas, Release);
        self.data.store(data, Release);
        self.set_limit(bytes);
    }

    /// Writes the limit (rule 2).
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
