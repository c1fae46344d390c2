//! A page's page list: blocks that other threads freed and that have no room for a batch.
//!
//! Many producers put in one block each; the owner takes all of them with one swap, as from an inbox. But an owner has
//! many pages, and is told which of them have such frees: who puts the first block into an empty one sends the page list itself,
//! by the owner's inbox. So there is one sender at a time, and the page list is under way until it is emptied.
//! (A fork between its two steps, in the child, loses what is ever put into that page list.)
//!
//! Rules
//! 1. A block belongs to exactly one of: the program, a producer, the page list, the owner.
//! 2. What the page list itself is linked by belongs to the producer that found it empty, until that has sent it; then to
//!    whoever takes it from an inbox, until it is emptied: after that, another producer may write the link already.

use super::inbox::Link;
use crate::base::sync::{AtomicPtr, Ordering, const_new, look};
use core::ptr::null_mut;

/// The first of the blocks. All zero bytes are an empty one.
#[derive(Debug)]
pub struct PageRemoteList<T> {
    first: AtomicPtr<T>,
}

impl<T: Link> Default for PageRemoteList<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Link> PageRemoteList<T> {
    const_new! {
        /// An empty one.
        pub fn new() -> Self {
            Self { first: AtomicPtr::new(null_mut()) }
        }
    }

    /// The block that was put in last, a moment ago; null: there was none.
    #[inline]
    pub fn first(&self) -> *mut T {
        self.first.load(Ordering::Relaxed)
    }

    /// Forgets what is in it: it is the caller's, and nothing should be.
    pub fn clear(&self) {
        self.first.store(null_mut(), Ordering::Relaxed);
    }

    /// Puts a block in. True: it is the first, and the caller must send the page list (rule 2). Lock-free.
    ///
    /// # Safety
    /// The caller owns the block and gives it up (rule 1).
    #[must_use]
    pub unsafe fn add(&self, block: *mut T) -> bool {
        // Release: what was in the block is seen by who empties the page list. Acquire: who emptied it has read the link,
        // which is the caller's to write from now on.
        let mut first = look!(self.first, Ordering::Relaxed);
        loop {
            // SAFETY: rule 1: it is not in yet.
            unsafe { T::set_next(block, first) };
            match self.first.compare_exchange_weak(first, block, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return first.is_null(),
                Err(now) => first = now,
            }
        }
    }

    /// Empties it, for who took it from an inbox: what `link` reads of it, which must be before (rule 2), and the
    /// blocks, newest first.
    pub fn open<L>(&self, link: impl FnOnce() -> L) -> (L, *mut T) {
        let link = link();
        (link, self.first.swap(null_mut(), Ordering::AcqRel))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Node(*mut Node);

    // SAFETY: the link is a field of its own.
    unsafe impl Link for Node {
        unsafe fn next(this: *mut Self) -> *mut Self {
            // SAFETY: the caller's.
            unsafe { (*this).0 }
        }
        unsafe fn set_next(this: *mut Self, next: *mut Self) {
            // SAFETY: the caller's.
            unsafe { (*this).0 = next }
        }
    }

    #[test]
    fn the_first_block_tells_who_sends() {
        let list = PageRemoteList::<Node>::new();
        let (mut a, mut b) = (Node(null_mut()), Node(null_mut()));
        let (a, b) = (&raw mut a, &raw mut b);
        // SAFETY: the blocks are this test's, and in no page list.
        unsafe { assert!(list.add(a) && !list.add(b)) };
        assert_eq!(list.first(), b);
        let (link, blocks) = list.open(|| 5);
        // SAFETY: they are this test's again.
        assert!(link == 5 && blocks == b && unsafe { Node::next(b) } == a && unsafe { Node::next(a) }.is_null());
        assert!(list.first().is_null());
    }

    #[test]
    fn what_is_cleared_is_forgotten() {
        let list = PageRemoteList::<Node>::new();
        let mut a = Node(null_mut());
        // SAFETY: the block is this test's, and in no page list.
        unsafe { assert!(list.add(&raw mut a)) };
        list.clear();
        assert!(list.first().is_null());
    }
}
