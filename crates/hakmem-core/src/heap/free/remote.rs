//! Remote frees: a thread gathers them by slot, then by owner, and then sends them.
//!
//! A thread never puts a block of another heap on its own lists: if it allocated the block again,
//! two threads would write to one cache line. Instead the block joins the open batch of its slot in
//! a small table. If two slots have the same place in the table, the older batch moves to the chain
//! for its owner. One compare-and-swap sends a chain to its owner's inbox.
//!
//! The thread sends all chains when they hold enough bytes, before it takes a parked, a cached or a
//! fresh page, and in `Heap::collect`: when it ends, at `malloc_trim`, or when memory is short. It
//! sends one chain alone if another owner needs the place of the chain.

use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::owner::{HEAP_SHIFT, Owner, inbox_of, note_sent};
use crate::backend::page::{Block, Meta};
use crate::backend::remote_batch::RemoteBatch;
use crate::base::counter::Counter;
use crate::heap::reclaim::whole;
use crate::policy;
use crate::proto::inbox::Link;
use core::cell::Cell;
use core::ptr::null_mut;

/// The number of open batches, a power of two.
const BATCHES: usize = 64;
/// The number of chains, a power of two.
const CHAINS: usize = 8;

/// A chain of remote batches for one owner.
struct Chain {
    owner: Cell<*mut Owner>,
    first: Cell<*mut RemoteBatch>,
    last: Cell<*mut RemoteBatch>,
    /// Bytes of their blocks.
    bytes: Cell<usize>,
}

/// The remote frees that a heap has not sent yet. Only the holder of the heap uses it.
pub struct Outgoing {
    /// Batches that blocks are added to; null: none.
    open: [Cell<*mut RemoteBatch>; BATCHES],
    chains: [Chain; CHAINS],
    /// Blocks freed for other owners.
    pub sent: Counter<u64>,
    /// Bit i: `open[i]` has a batch.
    filling: Cell<u64>,
    /// Bit i: `chains[i]` has batches.
    pending: Cell<u32>,
    /// Bytes of blocks that may join before the heap sends everything.
    room: Cell<i32>,
    /// See `Heap::released`.
    pub released: Cell<bool>,
    /// Batches closed. A closed batch takes no more blocks.
    pub batches_sent: Counter<u64>,
    /// Chains sent.
    pub chains_sent: Counter<u64>,
}

/// The index of the open batch for a block, from the number of its slot. Equal slots of two
/// neighbouring segments differ. A page of several slots has several batches.
fn place(block: *mut Block) -> usize {
    let slot = block.addr() / SLOT;
    (slot ^ (slot / BATCHES)) % BATCHES
}

fn is_same_slot(batch: *mut RemoteBatch, block: *mut Block) -> bool {
    (batch.addr() ^ block.addr()) < SLOT
}

/// The owner of the page. If the page has changed hands meanwhile, the former owner sends the batch
/// on (`page` rule 6).
fn owner_of(page: &Meta, block: *mut Block) -> *mut Owner {
    let owner = page.owner();
    if check::CHECKED && owner.is_null() {
        // While a block is used, its page has an owner (`page` rule 2).
        check::double_free(block.cast(), page);
    }
    owner
}

impl Outgoing {
    /// Adds a block of `page`. If the bytes so far reach BATCH_BYTES, first sends everything. O(1),
    /// and sometimes the sending.
    ///
    /// # Safety
    /// The block is of `page`, was live, and the caller gives it up.
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
            // SAFETY: the table holds only batches of this heap, and the calling thread is its
            // holder.
            if check::CHECKED && (RemoteBatch::block(batch) == block || unsafe { RemoteBatch::newest(batch) } == block)
            {
                check::double_free(block.cast(), page);
            }
            // SAFETY: a slot with a used block belongs to one page (`page` rule 2), so all blocks
            // of the batch are of `page`. The holder of this heap has the batch (`remote_batch`
            // rule 1), and the caller gives the block up.
            unsafe { RemoteBatch::push(batch, block) };
            self.room.set(self.room.get() - size as i32);
            return;
        }
        if !RemoteBatch::fits(size) {
            // SAFETY: the caller gives up a block of `page`. The page has an owner while a block of
            // it is used (`page` rule 2).
            if unsafe { RemoteBatch::send_by_page_list(page, block, inbox_of(owner_of(page, block))) } {
                self.batches_sent.add(1);
                self.chains_sent.add(1);
            }
            return;
        }
        self.close(i);
        // SAFETY: the caller gives up the block, and it fits: the check above returned otherwise.
        self.open[i].set(unsafe { RemoteBatch::new(block) });
        self.filling.set(self.filling.get() | 1 << i);
        self.room.set(self.room.get() - size as i32);
        if !policy::BATCH_BY_PAGE.is_on() {
            self.close(i);
        }
    }

    /// Moves an open batch, if there is one, to the chain for its owner.
    fn close(&self, i: usize) {
        let batch = self.open[i].replace(null_mut());
        if batch.is_null() {
            return;
        }
        self.filling.set(self.filling.get() & !(1 << i));
        self.batches_sent.add(1);
        // SAFETY: the batch came from the table, so the holder of this heap has it (`remote_batch`
        // rule 1).
        let page = unsafe { RemoteBatch::page(batch) };
        // SAFETY: the batch is this heap's, and no page list: those are never open.
        let length = unsafe { RemoteBatch::length(batch) };
        // SAFETY: the same, and `whole::has_all` says whether the page can be given up.
        if unsafe { whole::has_all(batch, page) } {
            // SAFETY: `has_all` said so.
            unsafe { whole::give_up(batch, page) };
            return self.released.set(true);
        }
        let owner = owner_of(page, RemoteBatch::block(batch));
        let i = (owner.addr() >> HEAP_SHIFT) % CHAINS;
        let chain = &self.chains[i];
        if chain.owner.get() != owner {
            self.send(i);
            chain.owner.set(owner);
        }
        let first = chain.first.replace(batch);
        // SAFETY: the batch came from the table, so the holder of this heap has it (`remote_batch`
        // rule 1).
        unsafe { RemoteBatch::set_next(batch, first) };
        chain.bytes.set(chain.bytes.get() + length as usize * page.block_size.get() as usize);
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
        // SAFETY: the chain is linked from `first` to `last`, and its batches are this heap's to
        // send. The owner was read from a page that had it.
        unsafe { inbox_of(chain.owner.get()).push_chain(first, chain.last.get()) };
        let bytes = chain.bytes.replace(0);
        // SAFETY: the owner was read from a page that had it.
        let before = unsafe { note_sent(chain.owner.get(), bytes) };
        if whole::note_waiting(before, before + bytes) {
            self.released.set(true);
        }
    }

    /// True if there is anything to send.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.filling.get() != 0 || self.pending.get() != 0
    }

    /// Sends all batches. O(batches).
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

    /// Resets the counters, in the child of a fork.
    pub fn reset_counts(&self) {
        self.sent.set(0);
        self.batches_sent.set(0);
        self.chains_sent.set(0);
    }

    /// Forgets all batches, in the child of a fork. The fork may have interrupted another thread
    /// that was writing one.
    pub fn forget(&self) {
        self.open.iter().for_each(|open| open.set(null_mut()));
        for chain in &self.chains {
            chain.first.set(null_mut());
            chain.bytes.set(0);
        }
        self.filling.set(0);
        self.pending.set(0);
        self.room.set(0);
    }
}
