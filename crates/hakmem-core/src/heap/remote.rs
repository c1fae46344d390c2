//! Blocks on their way to another thread's heap: gathered by page, then by owner, then sent.
//!
//! A block of somebody else's never enters this thread's own lists: handing it out again would put two threads'
//! data on one cache line. It joins the batch of its slot, one of a small table; a batch that makes room for another
//! slot's goes into the chain for its owner. Everything is sent, each chain with one compare-and-swap of its owner's inbox, once
//! enough bytes are held, when the thread needs another page, and when it ends.

use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::owner::{HEAP_SHIFT, Owner, inbox_of};
use crate::backend::page::{Block, Meta};
use crate::backend::remote_batch::RemoteBatch;
use crate::base::counter::Counter;
use crate::policy;
use crate::proto::inbox::Link;
use core::cell::Cell;
use core::ptr::null_mut;

/// Batches that are open at a time, a power of two.
const BATCHES: usize = 64;
/// Owners for whom there are chains at a time, a power of two.
const CHAINS: usize = 8;

/// A chain of batches for one owner.
struct Chain {
    owner: Cell<*mut Owner>,
    first: Cell<*mut RemoteBatch>,
    last: Cell<*mut RemoteBatch>,
}

/// What a thread has to send. Used by the thread that has the heap.
pub struct Outgoing {
    /// Batches that blocks are added to; null: none.
    open: [Cell<*mut RemoteBatch>; BATCHES],
    chains: [Chain; CHAINS],
    /// Blocks freed for other heaps.
    pub sent: Counter<u64>,
    /// Bit i: `open[i]` has a batch.
    filling: Cell<u64>,
    /// Bit i: `chains[i]` has batches.
    pending: Cell<u32>,
    /// Bytes of blocks that may still be added before everything is sent.
    room: Cell<i32>,
    /// Batches closed.
    pub batches_sent: Counter<u64>,
    /// Batches sent.
    pub chains_sent: Counter<u64>,
}

/// Where the batch is that a block joins, by its slot: those of two neighbouring segments lie apart. (A page of several slots has
/// as many batches.)
fn place(block: *mut Block) -> usize {
    let slot = block.addr() / SLOT;
    (slot ^ (slot / BATCHES)) % BATCHES
}

fn is_same_slot(batch: *mut RemoteBatch, block: *mut Block) -> bool {
    (batch.addr() ^ block.addr()) < SLOT
}

/// Who has the page; maybe the last owner by now, who will pass on what is sent (`page` rule 6).
fn owner_of(page: &Meta, block: *mut Block) -> *mut Owner {
    let owner = page.owner();
    if check::CHECKED && owner.is_null() {
        // While a block is out, a page has an owner (`page` rule 2).
        check::double_free(block.cast(), page);
    }
    owner
}

impl Outgoing {
    /// Adds a block of `page`; sends everything before if BATCH_BYTES are held. O(1),
    /// and now and then the sending of what has come together.
    ///
    /// # Safety
    /// The block is of that page, was live, and is given up by the caller.
    pub unsafe fn add(&self, page: &Meta, block: *mut Block) {
        check::check_start(block, page);
        let size = page.block_size.get();
        if self.room.get() < size as i32 {
            self.send_all();
            self.room.set(policy::BATCH_BYTES.get().max(size) as i32);
        }
        self.sent.add(1);
        let i = place(block);
        let batch = self.open[i].get();
        if is_same_slot(batch, block) {
            // SAFETY: the batch is this thread's.
            if check::CHECKED && (RemoteBatch::block(batch) == block || unsafe { RemoteBatch::newest(batch) } == block)
            {
                check::double_free(block.cast(), page);
            }
            // SAFETY: a slot whose block is out is of one page (`page` rule 2), so the batch is of this one; it is this thread's, and the
            // block the caller's to give up (`remote_batch` rule 1).
            unsafe { RemoteBatch::push(batch, block) };
            self.room.set(self.room.get() - size as i32);
            return;
        }
        if !RemoteBatch::fits(size) {
            // SAFETY: the block is the caller's to give up, of that page, which has an owner while a block is out (`page` rule 2).
            if unsafe { RemoteBatch::send_by_page_list(page, block, inbox_of(owner_of(page, block))) } {
                self.batches_sent.add(1);
                self.chains_sent.add(1);
            }
            return;
        }
        self.close(i);
        // SAFETY: the block is the caller's to give up.
        self.open[i].set(unsafe { RemoteBatch::new(block) });
        self.filling.set(self.filling.get() | 1 << i);
        self.room.set(self.room.get() - size as i32);
        if !policy::BATCH_BY_PAGE.is_on() {
            self.close(i);
        }
    }

    /// Moves an open batch, if there is one, to its owner's chain.
    fn close(&self, i: usize) {
        let batch = self.open[i].replace(null_mut());
        if batch.is_null() {
            return;
        }
        self.filling.set(self.filling.get() & !(1 << i));
        self.batches_sent.add(1);
        // SAFETY: `remote_batch` rule 1: it is this thread's.
        let page = unsafe { RemoteBatch::page(batch) };
        let owner = owner_of(page, RemoteBatch::block(batch));
        let i = (owner.addr() >> HEAP_SHIFT) % CHAINS;
        let chain = &self.chains[i];
        if chain.owner.get() != owner {
            self.send(i);
            chain.owner.set(owner);
        }
        let first = chain.first.replace(batch);
        // SAFETY: the batch is this thread's.
        unsafe { RemoteBatch::set_next(batch, first) };
        if first.is_null() {
            chain.last.set(batch);
            self.pending.set(self.pending.get() | 1 << i);
        }
    }

    fn send(&self, i: usize) {
        let chain = &self.chains[i];
        let first = chain.first.replace(null_mut());
        if first.is_null() {
            return;
        }
        self.pending.set(self.pending.get() & !(1 << i));
        self.chains_sent.add(1);
        // SAFETY: the chain is this thread's, and the owner was a page's.
        unsafe { inbox_of(chain.owner.get()).push_chain(first, chain.last.get()) };
    }

    /// True if there is anything to send.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.filling.get() != 0 || self.pending.get() != 0
    }

    /// Sends everything. O(batches).
    #[inline(never)]
    pub fn send_all(&self) {
        while self.filling.get() != 0 {
            self.close(self.filling.get().trailing_zeros() as usize);
        }
        while self.pending.get() != 0 {
            self.send(self.pending.get().trailing_zeros() as usize);
        }
        self.room.set(0);
    }

    /// In the child of a fork, which counts anew.
    pub fn reset_counts(&self) {
        self.sent.set(0);
        self.batches_sent.set(0);
        self.chains_sent.set(0);
    }

    /// Forgets everything: in the child of a fork, where another thread's may be half written.
    pub fn forget(&self) {
        self.open.iter().for_each(|open| open.set(null_mut()));
        for chain in &self.chains {
            chain.first.set(null_mut());
        }
        self.filling.set(0);
        self.pending.set(0);
        self.room.set(0);
    }
}
