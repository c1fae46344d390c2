//! The pool of idle heaps: a thread that ends leaves its heap here, a new thread adopts one.
//!
//! A stack of nodes that are never unmapped, changed by compare-and-swap. A node is named by a number (its address
//! shifted by 12), so the head's word has room for a tag that grows with every change: without it a popper could be
//! held up between reading the top's link and its compare-and-swap while others pop the top, pop the next and push the top
//! back, and would then bring a node back into the pool that somebody uses (ABA).
//!
//! Rules
//! 1. A node in the pool belongs to nobody; popping it makes the popper its owner (acquire), pushing it gives it up
//!    with everything in it (release).
//! 2. A node's link is read by poppers that may lose: it is atomic, and the node stays mapped for ever.

use crate::base::sync::{AtomicU64, Ordering, const_new, look};

const ID_BITS: u32 = 36;
const ID_MASK: u64 = (1 << ID_BITS) - 1;

/// The stack's one word: a tag above, the top's number below (0: none).
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

    /// True if the pool was empty a moment ago.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) & ID_MASK == 0
    }

    /// Puts node `id` on top. `link` is that node's link. Lock-free.
    pub fn push(&self, id: u64, link: &AtomicU64) {
        // Release: the node's contents are seen by whoever pops it (rule 1).
        let mut head = look!(self.head, Ordering::Relaxed);
        loop {
            link.store(head & ID_MASK, Ordering::Relaxed);
            let new = bump(head) | id;
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the top node. `link_of` finds a node's link by its number. Lock-free.
    pub fn pop<'a>(&self, link_of: impl Fn(u64) -> &'a AtomicU64) -> Option<u64> {
        // Acquire, here and on failure: the link read next, and everything the last owner did to the node (rule 1),
        // was written before the push that put the top there.
        let mut head = look!(self.head, Ordering::Acquire);
        loop {
            let id = head & ID_MASK;
            if id == 0 {
                return None;
            }
            let next = link_of(id).load(Ordering::Relaxed);
            // Relaxed: the tag makes it the very value that was acquired above.
            match self.head.compare_exchange_weak(head, bump(head) | next, Ordering::Relaxed, Ordering::Acquire) {
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

    /// Loom finds what goes wrong without it; this one says that each change is seen in the word.
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
