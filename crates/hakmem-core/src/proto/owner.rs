//! Whose a page is: a word that one thread writes, and others read to find where to send what they free.
//!
//! Who reads the word of another's page reaches the owner through it. It need not have met the thread that made that owner:
//! the page may have been parked by one heap and unparked by another, made since, while the reader held a block of it.
//! So the word itself carries what was written to the owner before.
//!
//! Rules
//! 1. The page's owner writes the word, or who takes it over from the former one, by way of a lock.
//! 2. An owner is reached only through a word that was read by [`OwnerWord::get`]. To compare it, [`OwnerWord::peek`] will do.

use crate::base::sync::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
    const_new,
};
use core::ptr::null_mut;

/// The word. All zero bytes are nobody's.
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
        /// Nobody's.
        pub fn new() -> Self {
            Self(AtomicPtr::new(null_mut()))
        }
    }

    /// The owner, to be reached. Acquire: see [`OwnerWord::set`].
    #[inline]
    pub fn get(&self) -> *mut T {
        self.0.load(Acquire)
    }

    /// The word, to be compared with the reader's own. Relaxed: what a thread reads of it is not older than what it wrote
    /// there itself, or read.
    #[inline]
    pub fn peek(&self) -> *mut T {
        self.0.load(Relaxed)
    }

    /// Names the owner. Release: what its thread wrote to it, the zeroes that it begins with above all, is there for whoever
    /// finds it by this word.
    #[inline]
    pub fn set(&self, owner: *mut T) {
        self.0.store(owner, Release);
    }

    /// Makes the page nobody's.
    #[inline]
    pub fn clear(&self) {
        self.0.store(null_mut(), Relaxed);
    }
}
