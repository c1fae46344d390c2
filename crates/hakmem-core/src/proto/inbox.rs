//! An owner's inbox: it receives the blocks that other threads freed.
//!
//! ```text
//! producer:  first → … → last → head     then head = first, by one compare-and-swap
//! consumer:  takes all nodes, by one swap of head with null
//! head:      │ KiB that wait, 16 bits │ address of the first node, 48 bits │
//! ```
//!
//! The inbox is a stack without a lock. Any thread may push, and any thread may take. In a stack of
//! which threads pop single nodes, a popper reads the link of a node that another thread may own by
//! then (the ABA problem). Here a consumer takes all nodes at once, and they are its own. So no
//! thread reads a link of a node that it does not own.
//!
//! Rules
//! 1. A node belongs to exactly one of: the program, a producer's chain, the inbox, a consumer.
//! 2. A producer writes links only in nodes of its own chain, before the compare-and-swap that
//!    publishes them (release).
//! 3. A consumer reads links only after the swap that takes them (acquire). The swap reads what
//!    the last producer wrote. It is ordered after the earlier producers, too: each
//!    compare-and-swap continues the release sequence of those before it.
//! 4. The head also says how much waits, so that a producer writes the line once for each chain.
//!    The figure is 0 if the inbox is empty, and a hint otherwise: chains are rounded up to KiB,
//!    and the sum stays at [`MOST_WAITING`] if it would be more.
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

/// A block whose first word is its link. The link may lead to any page, where that of a free block
/// of a page's list may not.
#[repr(C)]
pub struct Waiting {
    next: *mut Self,
}

// SAFETY: `next` returns what `set_next` stored last, and neither touches anything else.
unsafe impl Link for Waiting {
    unsafe fn next(this: *mut Self) -> *mut Self {
        // SAFETY: the caller owns the block, which has a word at least.
        unsafe { (*this).next }
    }
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        // SAFETY: the caller owns the block, which has a word at least.
        unsafe { (*this).next = next }
    }
}

/// The bits of the head that are an address. Programs' addresses have no more.
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;
const ADDRESS_BITS: u32 = 48;
/// The most KiB that the head can say.
const MOST_KIB: usize = usize::MAX >> ADDRESS_BITS;
/// The most bytes that [`Inbox::waiting_bytes`] can say.
pub const MOST_WAITING: usize = MOST_KIB << 10;

/// The first node of the inbox, or null, and how much waits (rule 4).
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

    /// Publishes the chain `first … last`, which counts for so many bytes of those that wait.
    /// Returns how many waited before. Lock-free, O(1) without contention.
    ///
    /// # Safety
    /// - The caller owns every node of the chain, and gives them up (rule 1).
    /// - The links lead from `first` to `last`.
    pub unsafe fn push_chain(&self, first: *mut T, last: *mut T, bytes: usize) -> usize {
        // Relaxed: the address becomes a link, which this thread does not follow. If the head has
        // changed meanwhile, the compare-and-swap fails.
        let mut head = load_or_cas!(self.head, Ordering::Relaxed);
        loop {
            // SAFETY: the caller owns `last` until the compare-and-swap below publishes it (rule
            // 2).
            unsafe { T::set_next(last, head.map_addr(|head| head & ADDRESS)) };
            let waiting = waiting_kib(head);
            let sum = (waiting + bytes.div_ceil(1 << 10)).min(MOST_KIB);
            let new = first.map_addr(|first| first | sum << ADDRESS_BITS);
            // Release: the consumer that takes the chain sees its links, and what the program left
            // in the blocks (rule 3).
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return waiting << 10,
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

    /// Bytes that wait, as far as producers have told. A hint (rule 4).
    pub fn waiting_bytes(&self) -> usize {
        waiting_kib(self.head.load(Ordering::Relaxed)) << 10
    }

    /// Takes every node, newest first. The caller owns them from then on. Wait-free. Costs a locked
    /// instruction, so call `is_empty` first.
    pub fn take(&self) -> *mut T {
        // Acquire: pairs with the release of each producer since the last swap (rule 3).
        self.head.swap(null_mut(), Ordering::Acquire).map_addr(|head| head & ADDRESS)
    }
}

fn waiting_kib<T>(head: *mut T) -> usize {
    head.addr() >> ADDRESS_BITS
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
            assert_eq!(inbox.push_chain(a, a, 0), 0);
            assert!(!inbox.is_empty() && inbox.waiting_bytes() == 0);
            assert_eq!(inbox.push_chain(b, c, 1), 0);
            assert_eq!(inbox.waiting_bytes(), 1 << 10);
            assert_eq!(inbox.take(), b);
            assert_eq!((Node::next(b), Node::next(c), Node::next(a)), (c, a, null_mut()));
        }
        assert!(inbox.is_empty() && inbox.take().is_null() && inbox.waiting_bytes() == 0);
    }

    #[test]
    fn what_waits_is_added_up_to_the_most() {
        let inbox: Inbox<Node> = Inbox::default();
        let mut nodes = [const { Node(Cell::new(null_mut())) }; 4];
        let [a, b, c, d] = nodes.each_mut().map(core::ptr::from_mut);
        // SAFETY: the nodes are this test's alone, and each is a chain.
        unsafe {
            inbox.push_chain(a, a, 5 << 10);
            assert_eq!(inbox.push_chain(b, b, 1025), 5 << 10);
            assert_eq!(inbox.waiting_bytes(), 7 << 10);
            assert_eq!(inbox.push_chain(c, c, MOST_WAITING), 7 << 10);
            assert_eq!(inbox.push_chain(d, d, MOST_WAITING), MOST_WAITING);
            assert_eq!(inbox.waiting_bytes(), MOST_WAITING);
            assert_eq!(inbox.take(), d);
            assert_eq!((Node::next(d), Node::next(c), Node::next(b)), (c, b, a));
        }
        assert!(inbox.is_empty() && inbox.waiting_bytes() == 0);
    }
}
