//! An owner's inbox: it receives the blocks that other threads freed.
//!
//! ```text
//! producer:  first → … → last → head     then head = first, by one compare-and-swap
//! consumer:  takes the whole list, by one swap of head with null
//! ```
//!
//! The inbox is a stack with many producers, one consumer at a time, and no lock. A stack of which
//! threads pop single nodes has the ABA problem: a popper reads the link of a node that another
//! thread may own by then. Here the consumer takes all nodes at once. So no thread reads a link of
//! a node that it does not own.
//!
//! Rules
//! 1. A node belongs to exactly one of: the program, a producer's chain, the inbox, the consumer.
//! 2. A producer writes links only in nodes of its own chain, before the compare-and-swap that
//!    publishes them (release).
//! 3. The consumer reads links only after the swap that takes them (acquire).
//!
//! Models: `tests/loom/inbox.rs`, `tests/loom/page.rs` and `tests/loom/handover.rs`.

use crate::base::sync::{AtomicPtr, Ordering, const_new, load_or_cas};
use core::ptr::null_mut;

/// A node that carries its own link.
///
/// # Safety
/// `next` returns what `set_next` stored last. Neither function touches anything but the node.
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

/// The first node of the inbox, or null.
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
    /// - The caller owns every node of the chain, and gives them up (rule 1).
    /// - The links lead from `first` to `last`.
    pub unsafe fn push_chain(&self, first: *mut T, last: *mut T) {
        // Release: the consumer that takes the chain sees its links, and what the program left in
        // the blocks (rule 3).
        let mut head = load_or_cas!(self.head, Ordering::Relaxed);
        loop {
            // SAFETY: the caller owns `last` until the compare-and-swap below publishes it (rule
            // 2).
            unsafe { T::set_next(last, head) };
            match self.head.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// True if the inbox was empty at some moment during the call.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: the caller only decides by this whether to swap at all.
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes every node, newest first. The caller owns them from then on. Wait-free. Costs a locked
    /// instruction, so call `is_empty` first.
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
    // SAFETY: both functions touch the node's one word alone, which no other code changes.
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
        // SAFETY: the nodes are this test's alone. Each is in one chain, and the links lead from
        // the first node of the chain to its last.
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
