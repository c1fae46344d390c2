//! Remote frees: a thread gathers them by slot, then by owner, and then sends them.
//!
//! A block above `SMALL_MAX` mostly goes onto the list of the freeing thread's own heap, if that
//! has room (`Heap::keep_remote` says when). A smaller one joins the open batch of its slot in a
//! small table: if the thread allocated it again, two threads would write to one cache line. If
//! there is no such batch, and batches have few blocks, the heap keeps some blocks all the same
//! (`scattered`). Else the block begins a batch. If two slots have the same place in the table, the
//! older batch is closed: it moves to a list of closed batches.
//!
//! The thread sends all batches when they hold enough bytes (more if it frees for many owners),
//! before it takes a parked, a cached or a fresh page (unless its batches are few or have few
//! blocks), and in `Heap::collect`: when it ends, at `malloc_trim`, or when memory is short.
//! Closed batches of parked pages have a list of their own. The thread also sends these before it
//! takes a page, if they are many, and at once if they are very many: all parked pages have one
//! inbox, and a few bytes may be all that keeps such a page.
//!
//! It sorts the closed batches into chains, one for each owner. One compare-and-swap sends a chain
//! to its owner's inbox. So each owner gets one chain, however many owners there are.

use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::owner::{HEAP_SHIFT, Owner, inbox_of};
use crate::backend::page::{Block, Meta};
use crate::backend::remote_batch::RemoteBatch;
use crate::base::counter::Counter;
use crate::base::sync::{Ordering::Relaxed, plain::AtomicBool};
use crate::heap::Heap;
use crate::heap::reclaim::{parked, whole};
use crate::policy;
use crate::proto::inbox::Link;
use core::cell::Cell;
use core::mem::{MaybeUninit, replace};
use core::ptr::null_mut;

/// The number of open batches, a power of two.
const BATCHES: usize = 64;
/// A heap that frees for more owners than that holds more bytes before it sends them, twice as many
/// at most.
const MANY: u32 = 128;
/// A heap that holds less than one in so many of these bytes does not send them before it takes a
/// page.
const LITTLE: u32 = 32;
/// So many closed batches of parked pages are sent before the heap takes a page.
const MANY_PARKED: u32 = 32;
/// So many are sent at once.
const MOST_PARKED: u32 = 256;
/// From a send with fewer blocks for each batch on, the heap's frees are scattered, …
const FEW: u64 = 2;
/// … until one with as many as this. Kept blocks are not sent, so a send then tells of others: of
/// smaller ones, and those of parked pages.
const SEVERAL: u64 = 8;
/// A send of fewer blocks tells nothing.
const ENOUGH: u64 = 64;
/// The number of chains that are sorted at once, a power of two.
const CHAINS: usize = 32;

/// The receiver of a chain fetches the batch that follows so many later.
const AHEAD: usize = 4;

/// A chain of remote batches for one owner.
#[derive(Clone, Copy)]
struct Chain {
    owner: *mut Owner,
    first: *mut RemoteBatch,
    last: *mut RemoteBatch,
    /// Bytes of their blocks.
    bytes: usize,
    /// The batches that were added last, in turn …
    recent: [*mut RemoteBatch; AHEAD],
    /// … and how many were added.
    count: usize,
}

const NO_CHAIN: Chain = Chain {
    owner: null_mut(),
    first: null_mut(),
    last: null_mut(),
    bytes: 0,
    recent: [null_mut(); AHEAD],
    count: 0,
};

/// Sets a number to zero, but writes only if that changes it: most heaps have nothing to send, and
/// their memory here is untouched.
fn clear<N: Default + PartialEq + Copy>(number: &Cell<N>) {
    if number.get() != N::default() {
        number.set(N::default());
    }
}

/// Batches that blocks are added to, and what the list of parked pages needs. Only the holder of
/// the heap uses them. They lie apart from [`Outgoing`], of which each refill reads some words.
pub struct Open {
    /// The batches; null: none.
    batches: [Cell<*mut RemoteBatch>; BATCHES],
    /// Of the list `Outgoing::parked`, if it has any: the last one, …
    parked_last: Cell<*mut RemoteBatch>,
    /// … how many they are, …
    parked_count: Cell<u32>,
    /// … and the bytes of their blocks.
    parked_bytes: Cell<u32>,
}

impl Open {
    /// The list `Outgoing::parked` has become empty.
    fn forget_parked(&self) {
        clear(&self.parked_count);
        clear(&self.parked_bytes);
    }
}

/// The remote frees that a heap has not sent yet. Only the holder of the heap uses it.
pub struct Outgoing {
    /// Closed batches, linked: they take no more blocks.
    closed: Cell<*mut RemoteBatch>,
    /// Those that were closed when their pages were parked.
    parked: Cell<*mut RemoteBatch>,
    /// Blocks freed for other owners.
    pub sent: Counter<u64>,
    /// Bit i: the open batch `i` is there.
    filling: Cell<u64>,
    /// Bytes of blocks that may join before the heap sends everything.
    room: Cell<i32>,
    /// The owners to which the last send went.
    owners: Cell<u16>,
    /// The batches of the last sends had few blocks (`FEW`).
    scattered: Cell<bool>,
    /// The lower halves of `sent` and `batches_sent` at the last send.
    sent_then: Cell<u32>,
    batches_then: Cell<u32>,
    /// See `Heap::has_released`.
    pub released: AtomicBool,
    /// Batches closed.
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
    /// Adds a block of `page` to the batch of its slot in `open`, the heap's. False: there is none,
    /// no room for the block, or the program made an error. Then nothing has changed, and the
    /// caller must call [`Outgoing::add`].
    ///
    /// # Safety
    /// The block is of `page`, was live, and the caller gives it up if this returns true.
    #[inline(always)]
    pub unsafe fn join(&self, open: &Open, page: &Meta, block: *mut Block) -> bool {
        let (size, room, batch) =
            (page.block_size.get(), self.room.get(), open.batches[place(block)].get());
        if !is_same_slot(batch, block)
            || room < size as i32
            || !check::may_start(block, page.class.get())
        {
            return false;
        }
        // SAFETY: the table holds only batches of this heap, and the calling thread is its holder.
        // A slot with a used block belongs to one page (`page` rule 2), so all blocks of the batch
        // are of `page`. The caller gives the block up.
        unsafe {
            if check::CHECKED
                && (RemoteBatch::block(batch) == block || RemoteBatch::newest(batch) == block)
            {
                return false;
            }
            RemoteBatch::push(batch, block);
        }
        self.sent.add(1);
        self.room.set(room - size as i32);
        true
    }

    /// Adds a block of `page`, for `heap`, which has these remote frees. If the bytes so far reach
    /// the most that the heap holds, first sends everything. O(1), and sometimes the sending.
    ///
    /// # Safety
    /// The block is of `page`, was live, and the caller gives it up.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub unsafe fn add(&self, heap: &Heap, page: &Meta, block: *mut Block) {
        check::check_start(block, page);
        let size = page.block_size.get();
        if self.room.get() < size as i32 {
            self.send_all(heap);
            self.room.set(self.most().max(size) as i32);
        }
        // SAFETY: the caller gives up a block of `page`.
        if unsafe { self.join(&heap.open, page, block) } {
            return;
        }
        let i = place(block);
        if is_same_slot(heap.open.batches[i].get(), block) {
            // There is room, and a block of the page starts here: so it is in the batch already.
            check::double_free(block.cast(), page);
        }
        self.sent.add(1);
        if !RemoteBatch::fits(size) {
            // SAFETY: the caller gives up a block of `page`. The page has an owner while a block of
            // it is used (`page` rule 2).
            if unsafe {
                RemoteBatch::send_by_page_list(page, block, inbox_of(owner_of(page, block)))
            } {
                self.batches_sent.add(1);
                self.chains_sent.add(1);
            }
            return;
        }
        self.close(heap, i);
        self.send_parked_from(&heap.open, MOST_PARKED);
        // SAFETY: the caller gives up the block, and it fits: the check above returned otherwise.
        heap.open.batches[i].set(unsafe { RemoteBatch::new(block) });
        self.filling.set(self.filling.get() | 1 << i);
        self.room.set(self.room.get() - size as i32);
        if !policy::BATCH_BY_PAGE.is_on() {
            self.close(heap, i);
        }
    }

    /// True if the batches of the last sends had few blocks.
    #[inline(always)]
    pub fn is_scattered(&self) -> bool {
        self.scattered.get()
    }

    /// The most bytes that the heap holds: more if it frees for many owners, as each send writes
    /// the inbox of each of them.
    fn most(&self) -> u32 {
        let usual = policy::BATCH_BYTES.get();
        (usual / MANY * u32::from(self.owners.get())).clamp(usual, usual * 2)
    }

    /// Moves an open batch, if there is one, to the closed ones.
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn close(&self, heap: &Heap, i: usize) {
        let batch = heap.open.batches[i].replace(null_mut());
        if batch.is_null() {
            return;
        }
        self.filling.set(self.filling.get() & !(1 << i));
        self.batches_sent.add(1);
        // SAFETY: the batch came from the table, so the holder of this heap has it (`remote_batch`
        // rule 1).
        let page = unsafe { RemoteBatch::page(batch) };
        // SAFETY: the batch is this heap's, and no page list: those are never open. `has_all` says
        // whether the page can be given up.
        if unsafe { whole::has_all(batch, page) } {
            // SAFETY: `has_all` said so. This thread has all blocks of the page, which is in no
            // list (`whole` rule 1).
            return unsafe { whole::give_up(batch, page, |page| heap.end_whole(page)) };
        }
        let list = if parked::is_owner(page.owner()) {
            // SAFETY: the batch is this heap's, and no page list: those are never open.
            let bytes = unsafe { RemoteBatch::length(batch) } * page.block_size.get();
            let open = &heap.open;
            open.parked_count.set(open.parked_count.get() + 1);
            open.parked_bytes.set(open.parked_bytes.get() + bytes);
            if self.parked.get().is_null() {
                open.parked_last.set(batch);
            }
            &self.parked
        } else {
            &self.closed
        };
        // SAFETY: the batch came from the table, so the holder of this heap has it (`remote_batch`
        // rule 1).
        unsafe { RemoteBatch::set_next(batch, list.replace(batch)) };
    }

    /// Sorts closed batches into chains, one for each owner, and sends these. Returns the batches
    /// whose place among the chains another owner's had.
    ///
    /// # Safety
    /// The batches are this heap's, linked from `batch`.
    unsafe fn send_some(&self, mut batch: *mut RemoteBatch) -> *mut RemoteBatch {
        // Those of `filled` are initialised: most sends go to few owners.
        let mut chains = [const { MaybeUninit::<Chain>::uninit() }; CHAINS];
        let mut filled = 0u32;
        let mut rest = null_mut();
        while !batch.is_null() {
            // SAFETY: the batch is this heap's, so the calling thread has it (`remote_batch` rule
            // 1). A closed batch is no page list. `chains[i]` was written when its bit was set.
            unsafe {
                let next = RemoteBatch::next(batch);
                let page = RemoteBatch::page(batch);
                let owner = owner_of(page, RemoteBatch::block(batch));
                let i = (owner.addr() >> HEAP_SHIFT) % CHAINS;
                if filled & 1 << i == 0 {
                    chains[i].write(Chain { owner, last: batch, ..NO_CHAIN });
                    filled |= 1 << i;
                }
                let chain = chains[i].assume_init_mut();
                if chain.owner == owner {
                    let size = page.block_size.get();
                    RemoteBatch::set_next(batch, chain.first);
                    let recent = &mut chain.recent[chain.count % AHEAD];
                    RemoteBatch::set_ahead(batch, size, replace(recent, batch));
                    chain.count += 1;
                    chain.first = batch;
                    chain.bytes += RemoteBatch::length(batch) as usize * size as usize;
                } else {
                    RemoteBatch::set_next(batch, rest);
                    rest = batch;
                }
                batch = next;
            }
        }
        while filled != 0 {
            let chain = &chains[filled.trailing_zeros() as usize];
            // SAFETY: the bit of the chain was set after the write of it.
            self.send(unsafe { chain.assume_init_ref() });
            filled &= filled - 1;
        }
        rest
    }

    fn send(&self, chain: &Chain) {
        self.chains_sent.add(1);
        // SAFETY: the chain is linked from `first` to `last`, and its batches are this heap's to
        // send. The owner was read from a page that had it.
        let before =
            unsafe { inbox_of(chain.owner).push_chain(chain.first, chain.last, chain.bytes) };
        if whole::note_waiting(before, before + chain.bytes) {
            self.released.store(true, Relaxed);
        }
    }

    /// True if there is enough to send that a heap does so before it takes more memory.
    #[inline]
    pub fn is_worth_sending(&self) -> bool {
        let most = self.most();
        self.is_pending() && self.room.get() <= (most - most / LITTLE) as i32
    }

    /// True if there is anything to send.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.filling.get() != 0 || !self.closed.get().is_null() || !self.parked.get().is_null()
    }

    /// Sends all batches. O(batches, and for each 32 owners that many once more).
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn send_all(&self, heap: &Heap) {
        while self.filling.get() != 0 {
            self.close(heap, self.filling.get().trailing_zeros() as usize);
        }
        self.join_lists(&heap.open);
        if self.closed.get().is_null() {
            return clear(&self.room);
        }
        let before = self.chains_sent.get();
        self.send_list(&self.closed);
        self.note_scattered();
        self.owners.set((self.chains_sent.get() - before).min(u16::MAX.into()) as u16);
        self.room.set(0);
    }

    /// Puts the batches of parked pages among the others: a heap that has taken such a page
    /// meanwhile gets one chain.
    fn join_lists(&self, open: &Open) {
        let parked = self.parked.replace(null_mut());
        if parked.is_null() {
            return;
        }
        // SAFETY: the list has a first batch, so `parked_last` is its last one. Both lists are this
        // heap's (`remote_batch` rule 1).
        unsafe { RemoteBatch::set_next(open.parked_last.get(), self.closed.replace(parked)) };
        open.forget_parked();
    }

    /// Sends the batches of a list.
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn send_list(&self, list: &Cell<*mut RemoteBatch>) {
        let mut batches = list.replace(null_mut());
        while !batches.is_null() {
            // SAFETY: these were closed batches of this heap, or are the rest of them.
            batches = unsafe { self.send_some(batches) };
        }
    }

    /// Sends the closed batches of parked pages.
    fn send_parked(&self, open: &Open) {
        self.send_list(&self.parked);
        let room = self.room.get() + open.parked_bytes.get() as i32;
        self.room.set(room.min(self.most() as i32));
        open.forget_parked();
    }

    /// Sends the closed batches of parked pages, if they are many: each may be the last that its
    /// page waits for, however few bytes it has. All parked pages have one inbox.
    pub fn send_many_parked(&self, open: &Open) {
        self.send_parked_from(open, MANY_PARKED);
    }

    fn send_parked_from(&self, open: &Open, count: u32) {
        // Most heaps have none, and touch nothing of `open`.
        if !self.parked.get().is_null() && open.parked_count.get() >= count {
            self.send_parked(open);
        }
    }

    /// Notes how many blocks each batch had since the last send.
    fn note_scattered(&self) {
        let (sent, batches) = (self.sent.get() as u32, self.batches_sent.get() as u32);
        let blocks = u64::from(sent.wrapping_sub(self.sent_then.replace(sent)));
        let batches = u64::from(batches.wrapping_sub(self.batches_then.replace(batches)));
        if blocks >= ENOUGH {
            let few = if self.scattered.get() { SEVERAL } else { FEW };
            self.scattered.set(blocks < few * batches);
        }
    }

    /// Resets the counters, in the child of a fork.
    pub fn reset_counts(&self) {
        self.sent.renew(0);
        clear(&self.sent_then);
        self.batches_sent.renew(0);
        clear(&self.batches_then);
        self.chains_sent.renew(0);
    }

    /// Forgets all batches, in the child of a fork. The fork may have interrupted another thread
    /// that was writing one.
    pub fn forget(&self, open: &Open) {
        for open in open
            .batches
            .iter()
            .chain([&self.closed, &self.parked])
            .filter(|batch| !batch.get().is_null())
        {
            open.set(null_mut());
        }
        open.forget_parked();
        clear(&self.filling);
        clear(&self.room);
    }
}
