//! A heap's inbox: blocks freed by other threads, on their way to the owner.
//!
//! Many producers, one consumer, no locks: a stack on which a producer puts a whole chain with one
//! compare-and-swap, and from which the consumer takes everything with one swap. Taking everything is what makes it
//! free of the ABA problem: no thread ever reads a link of a node it does not own.
//!
//! Rules
//! 1. A node belongs to exactly one of: the program, a producer's chain, the inbox, the consumer.
//! 2. A producer writes links only in nodes of its own chain, before the compare-and-swap that publishes them (release).
//! 3. The consumer reads links only after the swap that takes them (acquire).

use crate::base::sync::{AtomicPtr, Ordering, const_new, look};
use core::ptr::null_mut;

/// A node that carries its own link.
///
/// # Safety
/// `next` must return what `set_next` stored last, and neither may touch anything but the node.
pub unsafe trait Link {
    /// Reads the link.
    ///
    /// # Safety
    /// The caller owns the node (rule 1).
    unsafe fn next(this: *mut Self) -> *mut Self;
    /// Writes the link.
    ///
    /// # Safety
    /// The caller owns the node (rule 1).
    unsafe fn set_next(this: *mut Self, next: *mut Self);
}

/// The queue's one word.
#[derive(Debug)]
pub struct Inbox<T> {
    head: AtomicPtr<T>,
}

impl<T: Link> Default for Inbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Link> Inbox<T> {
    const_new! {
        /// An empty inbox.
        pub fn new() -> Self {
            Self { head: AtomicPtr::new(null_mut()) }
        }
    }

    /// Publishes the chain `first … last`. Lock-free, O(1) without contention.
    ///
    /// # Safety
    /// The caller owns every node of the chain and gives them up (rule 1).
    pub unsafe fn push_chain(&self, first: *mut T, last: *mut T) {
        // Release: the links and the freed contents are seen by whoever takes the chain (rule 3).
        let mut head = look!(self.head, Ordering::Relaxed);
        loop {
            // SAFETY: rule 2: the chain is not published yet.
            unsafe { T::set_next(last, head) };
            match self.head.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// True if there was nothing to take at some moment during the call.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: only decides whether to swap at all.
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes every node, newest first; the caller owns the chain from then on. Wait-free. Costs a locked instruction:
    /// ask `is_empty` first.
    pub fn take(&self) -> *mut T {
        // Acquire: pairs with the release in `push_chain` (rule 3).
        self.head.swap(null_mut(), Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::Cell;

    struct Node(Cell<*mut Node>);
    // SAFETY: the link is the node's one word.
    unsafe impl Link for Node {
        unsafe fn next(this: *mut Self) -> *mut Self {
            // SAFETY: the caller owns the node.
            unsafe { (*this).0.get() }
        }
        unsafe fn set_next(this: *mut Self, next: *mut Self) {
            // SAFETY: the caller owns the node.
            unsafe { (*this).0.set(next) }
        }
    }

    #[test]
    fn chains_are_taken_newest_first_and_all_at_once() {
        let inbox: Inbox<Node> = Inbox::default();
        assert!(inbox.is_empty() && inbox.take().is_null());
        let mut nodes = [const { Node(Cell::new(null_mut())) }; 3];
        let [a, b, c] = nodes.each_mut().map(core::ptr::from_mut);
        // SAFETY: the test's nodes, each in one chain.
        unsafe {
            Node::set_next(b, c);
            inbox.push_chain(a, a);
            assert!(!inbox.is_empty());
            inbox.push_chain(b, c);
            assert_eq!(inbox.take(), b);
            assert_eq!((Node::next(b), Node::next(c), Node::next(a)), (c, a, null_mut()));
        }
        assert!(inbox.is_empty() && inbox.take().is_null());
    }
}
