//! Blocks on their way to another thread's heap: gathered by page, then by owner, then sent.
//!
//! A block of somebody else's never enters this thread's own lists: handing it out again would put two threads'
//! data on one cache line. It joins the parcel of its slot, one of a small table; a parcel that makes room for another
//! slot's goes into the batch for its owner. Everything is sent, each batch with one compare-and-swap of its owner's inbox, once
//! enough bytes are held, when the thread needs another page, and when it ends.

use crate::backend::arena::PAGE;
use crate::backend::check;
use crate::backend::owner::{HEAP_SHIFT, Owner, inbox_of};
use crate::backend::page::{Block, Meta};
use crate::backend::parcel::Parcel;
use crate::base::counter::Counter;
use crate::policy;
use crate::proto::inbox::Link;
use core::cell::Cell;
use core::ptr::null_mut;

/// Parcels that are open at a time, a power of two.
const PARCELS: usize = 64;
/// Owners for whom there are batches at a time, a power of two.
const BATCHES: usize = 8;

/// A chain of parcels for one owner.
struct Batch {
    owner: Cell<*mut Owner>,
    first: Cell<*mut Parcel>,
    last: Cell<*mut Parcel>,
}

/// What a thread has to send. Used by the thread that has the heap.
pub struct Outgoing {
    /// Parcels that blocks are added to; null: none.
    open: [Cell<*mut Parcel>; PARCELS],
    batches: [Batch; BATCHES],
    /// Blocks freed for other heaps.
    pub sent: Counter<u64>,
    /// Bit i: `open[i]` has a parcel.
    filling: Cell<u64>,
    /// Bit i: `batches[i]` has parcels.
    pending: Cell<u32>,
    /// Bytes of blocks that may still be added before everything is sent.
    room: Cell<i32>,
    /// Parcels closed.
    pub parcels_sent: Counter<u64>,
    /// Batches sent.
    pub batches_sent: Counter<u64>,
}

/// Where the parcel is that a block joins, by its slot: those of two neighbouring segments lie apart. (A page of several slots has
/// as many parcels.)
fn place(block: *mut Block) -> usize {
    let slot = block.addr() / PAGE;
    (slot ^ (slot / PARCELS)) % PARCELS
}

fn is_same_slot(parcel: *mut Parcel, block: *mut Block) -> bool {
    (parcel.addr() ^ block.addr()) < PAGE
}

/// Who has the page; maybe the last owner by now, who will pass on what is sent (`page` rule 1).
fn owner_of(page: &Meta, block: *mut Block) -> *mut Owner {
    let owner = page.owner();
    if check::CHECKED && owner.is_null() {
        // While a block is out, a page has an owner (`page` rule 2).
        check::double_free(block.cast(), page);
    }
    owner
}

impl Outgoing {
    /// Adds a block of `page`; sends everything before if `limit` bytes are held. O(1),
    /// and now and then the sending of what has come together.
    ///
    /// # Safety
    /// The block is of that page, was live, and is given up by the caller.
    pub unsafe fn add(&self, page: &Meta, block: *mut Block, limit: u32) {
        check::check_start(block, page);
        let size = page.block_size.get();
        if self.room.get() < size as i32 {
            self.send_all();
            self.room.set(limit.max(size) as i32);
        }
        self.sent.add(1);
        let i = place(block);
        let parcel = self.open[i].get();
        if is_same_slot(parcel, block) {
            // SAFETY: the parcel is this thread's.
            if check::CHECKED && (Parcel::block(parcel) == block || unsafe { Parcel::newest(parcel) } == block) {
                check::double_free(block.cast(), page);
            }
            // SAFETY: a slot whose block is out is of one page (`page` rule 2), so the parcel is of this one; it is this thread's, and the
            // block the caller's to give up (`parcel` rule 1).
            unsafe { Parcel::push(parcel, block) };
            self.room.set(self.room.get() - size as i32);
            return;
        }
        if !Parcel::fits(size) {
            // SAFETY: the block is the caller's to give up, of that page, which has an owner while a block is out (`page` rule 2).
            if unsafe { Parcel::post(page, block, inbox_of(owner_of(page, block))) } {
                self.parcels_sent.add(1);
                self.batches_sent.add(1);
            }
            return;
        }
        self.close(i);
        // SAFETY: the block is the caller's to give up.
        self.open[i].set(unsafe { Parcel::new(block) });
        self.filling.set(self.filling.get() | 1 << i);
        self.room.set(self.room.get() - size as i32);
        if !policy::BATCH_BY_PAGE.is_on() {
            self.close(i);
        }
    }

    /// Moves an open parcel, if there is one, to its owner's batch.
    fn close(&self, i: usize) {
        let parcel = self.open[i].replace(null_mut());
        if parcel.is_null() {
            return;
        }
        self.filling.set(self.filling.get() & !(1 << i));
        self.parcels_sent.add(1);
        // SAFETY: `parcel` rule 1: it is this thread's.
        let page = unsafe { Parcel::page(parcel) };
        let owner = owner_of(page, Parcel::block(parcel));
        let i = (owner.addr() >> HEAP_SHIFT) % BATCHES;
        let batch = &self.batches[i];
        if batch.owner.get() != owner {
            self.send(i);
            batch.owner.set(owner);
        }
        let first = batch.first.replace(parcel);
        // SAFETY: the parcel is this thread's.
        unsafe { Parcel::set_next(parcel, first) };
        if first.is_null() {
            batch.last.set(parcel);
            self.pending.set(self.pending.get() | 1 << i);
        }
    }

    fn send(&self, i: usize) {
        let batch = &self.batches[i];
        let first = batch.first.replace(null_mut());
        if first.is_null() {
            return;
        }
        self.pending.set(self.pending.get() & !(1 << i));
        self.batches_sent.add(1);
        // SAFETY: the chain is this thread's, and the owner was a page's.
        unsafe { inbox_of(batch.owner.get()).push_chain(first, batch.last.get()) };
    }

    /// True if there is anything to send.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.filling.get() != 0 || self.pending.get() != 0
    }

    /// Sends everything. O(parcels).
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
        self.parcels_sent.set(0);
        self.batches_sent.set(0);
    }

    /// Forgets everything: in the child of a fork, where another thread's may be half written.
    pub fn forget(&self) {
        self.open.iter().for_each(|open| open.set(null_mut()));
        for batch in &self.batches {
            batch.first.set(null_mut());
        }
        self.filling.set(0);
        self.pending.set(0);
        self.room.set(0);
    }
}
