//! The page list of a page: remote frees of blocks that have no room for a remote batch.
//!
//! ```text
//! producer:  adds a block; if the list was empty, sends the list by the owner's inbox
//! owner:     takes the list from the inbox · reads its link · takes all blocks by one swap
//! ```
//!
//! Many producers add one block each. The owner takes all blocks with one swap, as from an inbox.
//! But an owner has many pages, and must learn which of them have such frees. So the producer that
//! adds the first block to an empty list sends the list itself, by the owner's inbox. The list is
//! not empty again until the owner has taken it from the inbox. So there is one sender at a time.
//!
//! A fork may come between the two steps of a producer, which is then gone in the child. In the
//! child no thread ever sends that list, and the blocks that it gets are lost.
//!
//! Rules
//! 1. A block belongs to exactly one of: the program, a producer, the page list, the owner.
//! 2. The link by which the list is in an inbox belongs to the producer that found the list empty,
//!    until that producer has sent it. Then the link belongs to the thread that takes the list from
//!    an inbox, until that thread empties the list. From then on another producer may write it.
//!
//! Model: `tests/loom/page_list.rs`.

use super::inbox::Link;
use crate::base::sync::{AtomicPtr, Ordering, const_new, load_or_cas};
use core::ptr::null_mut;

/// The first block of the list, or null. All zero bytes are an empty list.
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
        /// An empty list.
        pub fn new() -> Self {
            Self { first: AtomicPtr::new(null_mut()) }
        }
    }

    /// The block that was added last, at some moment during the call. Null: the list was empty.
    #[inline]
    pub fn first(&self) -> *mut T {
        self.first.load(Ordering::Relaxed)
    }

    /// Empties the list without its blocks. For a caller that owns the page, whose list should be
    /// empty.
    pub fn clear(&self) {
        self.first.store(null_mut(), Ordering::Relaxed);
    }

    /// Adds a block. Returns true if it is the first one: then the caller must send the list (rule
    /// 2). Lock-free.
    ///
    /// # Safety
    /// The caller owns the block, and gives it up (rule 1).
    #[must_use]
    pub unsafe fn add(&self, block: *mut T) -> bool {
        // Relaxed: the address becomes a link, which this thread does not follow. If the word has
        // changed meanwhile, the compare-and-swap fails.
        let mut first = load_or_cas!(self.first, Ordering::Relaxed);
        loop {
            // SAFETY: the caller owns the block until the compare-and-swap below adds it (rule 1).
            unsafe { T::set_next(block, first) };
            // Release: the thread that empties the list sees what the program left in the block.
            // The later compare-and-swaps continue this one's release sequence. Acquire: the thread
            // that emptied the list has read its link before. So the caller may write the link from
            // now on.
            match self.first.compare_exchange_weak(
                first,
                block,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return first.is_null(),
                Err(now) => first = now,
            }
        }
    }

    /// Empties the list, for the thread that took it from an inbox. Calls `link` first, which reads
    /// the list's link (rule 2). Returns what `link` returned, and the blocks, newest first.
    pub fn open<L>(&self, link: impl FnOnce() -> L) -> (L, *mut T) {
        let link = link();
        (link, self.first.swap(null_mut(), Ordering::AcqRel))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Node(*mut Node);

    // SAFETY: both functions touch the node's one field alone, which no other code changes.
    unsafe impl Link for Node {
        unsafe fn next(this: *mut Self) -> *mut Self {
            // SAFETY: the caller owns the node.
            unsafe { (*this).0 }
        }
        unsafe fn set_next(this: *mut Self, next: *mut Self) {
            // SAFETY: the caller owns the node.
            unsafe { (*this).0 = next }
        }
    }

    #[test]
    fn the_first_block_tells_who_sends() {
        let list = PageRemoteList::<Node>::new();
        let (mut a, mut b) = (Node(null_mut()), Node(null_mut()));
        let (a, b) = (&raw mut a, &raw mut b);
        // SAFETY: this test owns the blocks, which are in no page list.
        unsafe { assert!(list.add(a) && !list.add(b)) };
        assert_eq!(list.first(), b);
        let (link, blocks) = list.open(|| 5);
        // SAFETY: `open` has given the blocks back to this test.
        let (second, end) = unsafe { (Node::next(b), Node::next(a)) };
        assert!(link == 5 && blocks == b && second == a && end.is_null());
        assert!(list.first().is_null());
    }

    #[test]
    fn what_is_cleared_is_forgotten() {
        let list = PageRemoteList::<Node>::new();
        let mut a = Node(null_mut());
        // SAFETY: this test owns the block, which is in no page list.
        unsafe { assert!(list.add(&raw mut a)) };
        list.clear();
        assert!(list.first().is_null());
    }
}
