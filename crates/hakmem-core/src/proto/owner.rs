//! The owner of a page: one thread writes the word, others read it to find where to send their
//! frees.
//!
//! ```text
//! heap A has the page → A parks it → a thread makes heap B, which takes it → the reader finds B
//!          the reader has a block of the page all the time, and never met that thread
//! ```
//!
//! A reader of the word follows it to the owner. Nothing else gives the reader an order after the
//! thread that made that owner. So the word itself does: that thread writes it with release, and
//! the reader reads it with acquire.
//!
//! Rules
//! 1. The thread that holds the page's owner writes the word. A thread that takes the page over
//!    from another owner writes it under a lock.
//! 2. A thread follows the word to the owner only if it read the word by [`OwnerWord::get`]. To
//!    compare the word, [`OwnerWord::peek`] is enough.
//!
//! Models: `tests/loom/owner.rs` and `tests/loom/handover.rs`.

use crate::base::sync::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
    const_new,
};
use core::ptr::null_mut;

/// The owner of a page, or null. All zero bytes are null.
#[derive(Debug)]
#[repr(transparent)]
pub struct OwnerWord<T>(AtomicPtr<T>);

impl<T> Default for OwnerWord<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OwnerWord<T> {
    const_new! {
        /// The word of a page without an owner.
        pub fn new() -> Self {
            Self(AtomicPtr::new(null_mut()))
        }
    }

    /// The owner, for a thread that follows the pointer. Acquire: pairs with [`OwnerWord::set`].
    #[inline]
    pub fn get(&self) -> *mut T {
        self.0.load(Acquire)
    }

    /// The owner, for a thread that only compares the pointer. Relaxed: the value is not older than
    /// the last one that this thread wrote to the word or read from it.
    #[inline]
    pub fn peek(&self) -> *mut T {
        self.0.load(Relaxed)
    }

    /// Sets the owner. Release: a thread that finds the owner by this word sees the owner as this
    /// thread does. Above all, it sees the owner's inbox made, and not what the memory of a new
    /// heap held before.
    #[inline]
    pub fn set(&self, owner: *mut T) {
        self.0.store(owner, Release);
    }

    /// Leaves the page without an owner. Relaxed: a reader of null follows nothing.
    #[inline]
    pub fn clear(&self) {
        self.0.store(null_mut(), Relaxed);
    }
}
