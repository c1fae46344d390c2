//! The pool of idle heaps: a thread that ends pushes its heap, a new thread pops one.
//!
//! ```text
//! head:  tag (28 bits) | number of the top node (36 bits; 0: none)
//! push:  link of the node = number of the top;  head = next tag, number of the node
//! pop:   next = link of the top;                head = next tag, next
//! ```
//!
//! The pool is a stack that threads change by compare-and-swap. A node's number is its address
//! shifted by 13. So the head has room for a tag, which grows with every change. Without the tag
//! the stack has the ABA problem. A popper reads the top's link and stops there. Meanwhile other
//! threads pop the top, pop the next node, and push the top again. The popper's compare-and-swap
//! then succeeds, and puts the next node back into the pool while a thread uses it.
//!
//! Rules
//! 1. No thread owns a node in the pool. A thread that pops a node owns it (acquire). A thread that
//!    pushes a node gives it up, with all that it wrote there (release).
//! 2. A popper may read the link of a node that another thread pops first. So the link is atomic,
//!    and nodes are never unmapped.
//!
//! Model: `tests/loom/id_stack.rs`.

use crate::base::sync::{AtomicU64, Ordering, const_new, load_or_cas};

const ID_BITS: u32 = 36;
const ID_MASK: u64 = (1 << ID_BITS) - 1;

/// The head of the stack. The high bits have the tag, the low bits the number of the top node.
#[derive(Debug)]
pub struct IdStack {
    head: AtomicU64,
}

impl Default for IdStack {
    fn default() -> Self {
        Self::new()
    }
}

impl IdStack {
    const_new! {
        /// An empty pool.
        pub fn new() -> Self {
            Self { head: AtomicU64::new(0) }
        }
    }

    /// True if the pool was empty at some moment during the call.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) & ID_MASK == 0
    }

    /// Pushes node `id`, whose link is `link`. Lock-free.
    pub fn push(&self, id: u64, link: &AtomicU64) {
        // Release: the thread that pops the node sees what this thread wrote there (rule 1).
        let mut head = load_or_cas!(self.head, Ordering::Relaxed);
        loop {
            link.store(head & ID_MASK, Ordering::Relaxed);
            let new = bump(head) | id;
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Pops the top node. `link_of` finds a node's link by its number. Lock-free.
    pub fn pop<'a>(&self, link_of: impl Fn(u64) -> &'a AtomicU64) -> Option<u64> {
        // Acquire, here and on failure. The thread that pushed the top wrote its link, and all else
        // in the node, before that (rule 1).
        let mut head = load_or_cas!(self.head, Ordering::Acquire);
        loop {
            let id = head & ID_MASK;
            if id == 0 {
                return None;
            }
            let next = link_of(id).load(Ordering::Relaxed);
            // Relaxed: a head with the same tag is the very value that this thread acquired above.
            match self.head.compare_exchange_weak(
                head,
                bump(head) | next,
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(id),
                Err(now) => head = now,
            }
        }
    }
}

/// The next tag, with no number.
fn bump(head: u64) -> u64 {
    (head & !ID_MASK).wrapping_add(1 << ID_BITS)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_left_is_the_first_taken() {
        let links = [const { AtomicU64::new(0) }; 3];
        // The largest numbers that there are: their highest bit lies below the tag.
        let number = |i: usize| ID_MASK - i as u64;
        let link_of = |id: u64| &links[(ID_MASK - id) as usize];
        let pool = IdStack::new();
        assert!(pool.is_empty() && pool.pop(link_of).is_none());
        for (i, link) in links.iter().enumerate() {
            pool.push(number(i), link);
            assert!(!pool.is_empty());
        }
        for i in (0..3).rev() {
            assert_eq!(pool.pop(link_of), Some(number(i)));
        }
        assert!(pool.is_empty() && pool.pop(link_of).is_none());
    }

    /// Loom finds what goes wrong without a tag. This test checks that each change raises it.
    #[test]
    fn every_change_has_a_tag_of_its_own() {
        let link = AtomicU64::new(0);
        let pool = IdStack::new();
        for changes in (0..1000).step_by(2) {
            assert_eq!(pool.head.load(Ordering::Relaxed), changes << ID_BITS);
            pool.push(7, &link);
            assert_eq!(pool.head.load(Ordering::Relaxed), (changes + 1) << ID_BITS | 7);
            assert_eq!(pool.pop(|_| &link), Some(7));
        }
        // After all the tags it begins anew.
        assert_eq!(bump(!ID_MASK | 7), 0);
    }
}
