//! Blocks on their way to another thread's heap: a small table of batches, one for each recent owner.
//!
//! A block of somebody else's never enters this thread's own lists: handing it out again would put two threads'
//! data on one cache line. It waits in the owner's batch until the batch holds enough bytes, the thread takes a slow
//! path of allocation, or it ends; then the whole batch goes with one swing of the owner's inbox.

use crate::page::{Block, Owner};
use crate::proto::inbox::{Inbox, Link};
use core::cell::Cell;
use core::ptr::null_mut;

/// Batches a thread keeps, a power of two.
const BATCHES: usize = 8;

struct Batch {
    owner: Cell<*mut Owner>,
    first: Cell<*mut Block>,
    last: Cell<*mut Block>,
    bytes: Cell<u32>,
}

/// A thread's batches. Used by the thread that has the heap.
pub struct Outgoing {
    batches: [Batch; BATCHES],
    /// Bit i: batch i holds blocks.
    pending: Cell<u32>,
}

impl Outgoing {
    /// Adds a block for `owner`; sends the batch once it holds `limit` bytes. `inbox_of` finds an owner's inbox.
    ///
    /// # Safety
    /// The block is `owner`'s, was live, and is given up by the caller.
    #[inline]
    pub unsafe fn add(
        &self,
        owner: *mut Owner,
        block: *mut Block,
        bytes: u32,
        limit: u32,
        inbox_of: impl Fn(*mut Owner) -> &'static Inbox<Block>,
    ) {
        // Heaps are 4 KiB apart.
        let i = (owner.addr() >> 12) % BATCHES;
        let batch = &self.batches[i];
        if batch.owner.get() != owner {
            self.send(i, &inbox_of);
            batch.owner.set(owner);
        }
        let first = batch.first.get();
        // SAFETY: the block is the caller's to write.
        unsafe { Block::set_next(block, first) };
        batch.first.set(block);
        if first.is_null() {
            batch.last.set(block);
            self.pending.set(self.pending.get() | 1 << i);
        }
        let held = batch.bytes.get() + bytes;
        batch.bytes.set(held);
        if held >= limit {
            self.send(i, &inbox_of);
        }
    }

    fn send(&self, i: usize, inbox_of: &impl Fn(*mut Owner) -> &'static Inbox<Block>) {
        let batch = &self.batches[i];
        let first = batch.first.replace(null_mut());
        if first.is_null() {
            return;
        }
        batch.bytes.set(0);
        self.pending.set(self.pending.get() & !(1 << i));
        // SAFETY: the chain is this thread's.
        unsafe { inbox_of(batch.owner.get()).push_chain(first, batch.last.get()) };
    }

    /// True if any batch holds something.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.pending.get() != 0
    }

    /// Sends every batch. O(batches that hold something).
    #[inline(never)]
    pub fn send_all(&self, inbox_of: impl Fn(*mut Owner) -> &'static Inbox<Block>) {
        while self.pending.get() != 0 {
            self.send(self.pending.get().trailing_zeros() as usize, &inbox_of);
        }
    }

    /// Forgets every batch: in the child of a fork, where another thread's may be half written.
    pub fn forget(&self) {
        for batch in &self.batches {
            batch.first.set(null_mut());
            batch.bytes.set(0);
        }
        self.pending.set(0);
    }
}
