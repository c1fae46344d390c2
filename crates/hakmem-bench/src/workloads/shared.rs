//! Slots through which threads exchange blocks.

use crate::heap::{Block, Subject};
use crate::storage::Table;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Slots that all threads share. They hold blocks as tokens.
pub struct Shared<A: Subject> {
    slots: Table<AtomicPtr<u8>>,
    blocks: PhantomData<fn() -> Block<A>>,
}

impl<A: Subject> Shared<A> {
    /// So many slots, all empty.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: Table::filled(slots, |_| AtomicPtr::new(ptr::null_mut())),
            blocks: PhantomData,
        }
    }

    /// Puts a block into slot `i` and takes what was there.
    pub fn exchange(&self, i: usize, block: Option<Block<A>>) -> Option<Block<A>> {
        let token = block.map_or(ptr::null_mut(), Block::into_token);
        let old = self.slots[i].swap(token, Ordering::AcqRel);
        // SAFETY: only `into_token` of blocks of `A` fills the slots, and the swap gave this one to
        // us alone.
        unsafe { Block::from_token(old) }
    }

    /// Frees all that is there.
    pub fn clear(&self) {
        (0..self.slots.len()).for_each(|i| drop(self.exchange(i, None)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;
    use std::alloc::System;

    #[test]
    fn a_slot_gives_back_what_was_put_there_once() {
        let shared = Shared::<System>::new(2);
        assert!(shared.exchange(1, Some(Heap::new().block(40))).is_none());
        assert!(shared.exchange(0, None).is_none());
        let back = shared.exchange(1, Some(Heap::new().block(50)));
        assert_eq!(back.map(|block| block.size()), Some(40));
        shared.clear();
        assert!(shared.exchange(1, None).is_none());
    }
}
