//! The heap of a thread: a free list for each class, and the pages that the blocks come from.
//!
//! ```text
//! malloc:  owner.front.lists[class] → pop       the list was taken whole from the current page,
//!                                               and gets its frees
//! free:    page.frees_to ← push, until_slow -= 1     page by arithmetic, owner by one comparison
//! ```
//!
//! The slow path of malloc takes these steps until one finds a block:
//! 1. It merges the inbox.
//! 2. It takes blocks of other owners that the heap keeps apart (`free::scattered`).
//! 3. It takes the list of the current page.
//! 4. It carves fresh blocks of the current page, or fills a hole there.
//! 5. It goes on to the next page of the class. Full pages leave the queue.
//! 6. It takes blocks of a shared page (`share`).
//! 7. It takes a parked page.
//! 8. It takes a cached empty page.
//! 9. It claims a page.
//!
//! Rules
//! 1. Only the holder uses a `Heap`, or a purge that keeps the holder outside (rule 3). Any other
//!    thread has a [`SharedHeap`] of it.
//! 2. One thread holds a heap at a time. `proto::heap_state` says which, and `shared` how a thread
//!    becomes the holder. No heap is ever freed.
//! 3. The holder is `inside` while it moves pages between lists, and a purge may keep it outside
//!    for a moment (`proto::pause`, `reclaim::sleeping`). The child of a fork cannot use a heap
//!    whose holder was inside at the fork. At any other moment a heap is consistent: a store takes
//!    a block off a list, and one puts it there. If a fork comes between that store and the count
//!    of the block, the count is wrong in the child: a page looks fuller than it is, or a heap's
//!    list shorter or longer, by one block or by those that a full list passes on.
//! 4. A refill merges the inbox before it takes the list of a page (`page` rule 4).

pub mod all;
pub mod counts;
mod free;
mod large_blocks;
mod live;
pub mod peak;
pub mod pool;
pub(crate) mod reclaim;
mod refill;
pub mod region;
pub mod shared;
// Miri has no fork, and models have their own fork.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests;

use crate::backend::arena;
use crate::backend::list::List;
use crate::backend::owner::{HEAP_SHIFT, Owner};
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{self, Block, Kind, Meta, PageState};
use crate::backend::segment;
use crate::base::counter::Counter;
use crate::base::size_class::{CLASSES, FIRST_LONG};
use crate::base::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::harden::fence::Pace;
use crate::harden::quarantine::Quarantine;
use crate::harden::to_tell::ToTell;
use crate::heap::free::remote::{Open, Outgoing};
use crate::heap::reclaim::sleeping::Seen;
use crate::large::{self, huge};
use crate::profile::Sampler;
use crate::proto::heap_state::HeapState;
use crate::proto::pause::Pause;
use core::cell::Cell;
use core::ptr::{NonNull, null};
use counts::Counts;
use shared::SharedHeap;

/// The heap of a thread.
#[repr(C, align(8192))]
pub struct Heap {
    /// The lists that the fast path reads, and the inbox.
    pub owner: Owner,
    queue: [PageQueue; CLASSES],
    /// For each class up to `SMALL_MAX`, the page that the heap's list is of (`free::current`).
    current: [Cell<*const Meta>; FIRST_LONG],
    cached: PageQueue,
    cached_len: Cell<u32>,
    /// The amount of blocks that the heap got from shared pages: see `share`.
    shared: refill::share::Shared,
    /// The index of the oldest of `candidates`.
    oldest: Cell<u32>,
    /// Pages that became candidates recently.
    candidates: [Cell<*mut Meta>; CANDIDATES],
    /// The number of pages that the heap owns, and of those in `ended`. `u32::MAX` at most.
    pages: Cell<u32>,
    /// A list that moves between page and heap is checked to its end if its number, modulo twice
    /// `WALK_EVERY`, equals this.
    walked: Cell<u32>,
    /// Remote batches that are not sent yet.
    pub outgoing: Outgoing,
    /// A bit for each class above `SMALL_MAX`: a free found the list full since it was last empty.
    overflowed: Cell<u32>,
    /// A bit for each class: `scattered` has blocks of it. The last bit: it knows of refills.
    has_scattered: Cell<u64>,
    /// Where the holder is inside (rule 3).
    pause: Pause,
    /// What the passes of the purge saw of the heap.
    seen: Seen,
    /// The heap was another thread's when the process forked. The fork may have interrupted a push,
    /// so the lists are not checked.
    inherited: Cell<bool>,
    /// True while the holder is in the program's callback for an allocation that fails.
    pub asks: Cell<bool>,
    /// The class whose counters `now_and_then` makes room in next.
    turn: Cell<u8>,
    /// The state of the random numbers that give `walked`; 0: none was drawn yet.
    dice: Cell<u32>,
    /// Blocks of the hardened build that wait.
    pub quarantine: Quarantine,
    /// A write after a free that is to be reported.
    to_tell: ToTell,
    /// How often its thread asks for the tick of the clock before it fences a block.
    pub pace: Pace,
    /// The change of the live bytes that the process's total does not have yet, and the highest
    /// value of this change.
    pub live: Counter<i64>,
    high: Cell<i64>,
    /// The change of the bytes carved in pages of one slot that `segment` does not have yet.
    carved: Cell<i64>,
    large: large::Cache,
    /// Where the heap claims slots first.
    home: segment::Home,
    /// Decides when the next sample of the profile is due; null until the heap needs it.
    sampler: Cell<*const Sampler>,
    /// Who holds the heap.
    pub(crate) state: HeapState,
    /// `counts.merges` when a purge last looked into the inbox (`reclaim::whole`).
    merges_seen: AtomicU64,
    /// The numbers of its process and its thread, if no destructor runs at the end of that thread
    /// (`pool` rule 2). 0: one does, or the thread has ended.
    thread: AtomicU64,
    /// The number that libc has for the holder's thread. 0: unknown, or nobody held the heap yet.
    number: AtomicU32,
    /// Full pages of the heap that others ended. `pages` counts them until the next fresh page.
    ended: AtomicU32,
    /// The link of the pool.
    link: AtomicU64,
    /// The heap made before this one.
    pub(crate) next_heap: AtomicPtr<SharedHeap>,
    /// The counters. What follows them, and those of the last classes, lies behind the first 4 KiB.
    /// A thread that has few small blocks, and sends none to other threads, touches only those 4
    /// KiB.
    pub counts: Counts,
    /// The open ones of the remote batches.
    pub open: Open,
    /// Small blocks of other owners that the heap keeps apart from its lists.
    scattered: free::scattered::Scattered,
    /// Huge blocks that the heap keeps, in a program of many heaps.
    pub huge: huge::kept::Kept,
}

const _: () = assert!(size_of::<Heap>() == 1 << HEAP_SHIFT);
// `overflowed` has a bit for each class above `SMALL_MAX`.
const _: () = assert!(CLASSES - FIRST_LONG <= u32::BITS as usize);
// `has_scattered` has a bit for each class, and one more.
const _: () = assert!(CLASSES < u64::BITS as usize);

/// On average one in this many lists that move between page and heap is checked to its end, and so
/// is a list at one in this many looks (`free::current`). The beginning of the others is checked. A
/// check of all lists to their end would cost 6 instructions for each pair of malloc and free.
const WALK_EVERY: u32 = 128;

/// A heap parks a candidate when this many further pages have become candidates. In this time a
/// program that frees all blocks frees the last blocks of the page too.
const CANDIDATES: usize = 4;

pub use crate::base::size_class::span_of;
#[cfg_attr(
    any(miri, shuttle),
    allow(unused_imports, reason = "these have no note of where it lies")
)]
pub use free::HEAPLESS;
pub use free::{Beyond, heapless_frees, reset_heapless_frees};
pub use large_blocks::{CachedLarge, FreedLarge};
use live::REPORT_BYTES;

/// A block, and whether all its bytes are zero.
pub type Found = (NonNull<Block>, bool);

impl Heap {
    /// Set when a page went back to its segment, or when much waits in an inbox. The caller that
    /// sees it clears it and calls `purge::tick`. A purge that keeps the heap paused may set it at
    /// any time, so it is an atomic. Relaxed: it is a hint, and that purge gives the memory back
    /// itself.
    #[inline(always)]
    pub fn has_released(&self) -> bool {
        self.outgoing.released.load(Relaxed)
    }

    /// Sets or clears [`Heap::has_released`].
    #[inline(always)]
    pub fn set_released(&self, released: bool) {
        self.outgoing.released.store(released, Relaxed);
    }

    /// The heap as an owner of pages.
    #[inline]
    pub fn owner(&self) -> *mut Owner {
        self.owner.as_word()
    }

    /// Runs `f` inside (rule 3). Calls do not nest.
    #[inline(always)]
    fn busy<R>(&self, f: impl FnOnce() -> R) -> R {
        self.pause.enter();
        let result = f();
        self.pause.leave();
        result
    }

    /// Resets the counters, in the child of a fork.
    pub fn reset_counts(&self) {
        let (small, long) = self.owner.front.lists.split_at(FIRST_LONG);
        small.iter().for_each(List::forget_kept);
        long.iter().for_each(List::mend_countdown);
        // SAFETY: the child has one thread, so no thread changes the list. A wrong link ends the
        // walk: see `listed_within`.
        let listed = |class| unsafe { self.listed(class) };
        self.counts.reset(|class| (listed(class), self.owner.front.lists[class].kept().into()));
        self.outgoing.reset_counts();
        self.forget_refills();
        self.huge.reset_counts();
    }

    /// Prepares the heap of a thread that the child of a fork does not have. True: another thread
    /// can adopt it. False: the fork interrupted a change of its lists, and the heap is lost.
    pub fn after_fork(&self) -> bool {
        self.outgoing.forget(&self.open);
        self.large.forget();
        self.sampler.set(null()); // The lost thread may have been using its scratch memory.
        self.inherited.set(true);
        self.quarantine.end_change();
        !self.is_busy()
    }

    /// The heap has a thread on `node` from now on.
    pub fn settle(&self, node: usize) {
        // Inside: a purge that paused the heap for its last thread may still use both.
        self.busy(|| {
            self.home.settle(node);
            self.large.close_if_several();
        });
    }

    /// The huge blocks that the heap keeps.
    #[inline(always)]
    pub fn kept_huge(&self) -> &huge::kept::Kept {
        &self.huge
    }

    /// True while pages move between lists (rule 3). The holder calls this from a signal handler.
    pub fn is_busy(&self) -> bool {
        self.shared().is_busy()
    }

    /// Blocks of the retired page of `class`, 0 if there is none. A retired page has no owner, so
    /// only the holder of the heap finds it.
    pub fn retired(&self, class: usize) -> u64 {
        let page = self.queue[class].first();
        page.filter(|page| page.state.get() == PageState::Retired)
            .map_or(0, |page| u64::from(page.carved.get()))
    }

    /// Blocks of `class` in the heap's list, and those that it keeps of other owners. O(length of
    /// the list). The number is exact if the holder does not use the list meanwhile.
    ///
    /// # Safety
    /// No thread changes the list or writes its blocks during the call.
    pub unsafe fn listed(&self, class: usize) -> u64 {
        // SAFETY: the caller promises that no thread changes the list or writes its blocks.
        let listed = unsafe { self.listed_within(class, 0..usize::MAX) };
        listed + u64::from(self.scattered.count(class))
    }

    /// Blocks of `class` in the heap's list that start in `range`.
    ///
    /// In the child of a fork, the list of another thread may be newer than the links in its
    /// blocks: the kernel copies pages that are pinned for input and output apart from the others.
    /// So the walk follows a link only if it leads into a page of the class.
    ///
    /// # Safety
    /// No thread changes the list or writes its blocks during the call.
    pub unsafe fn listed_within(&self, class: usize, range: core::ops::Range<usize>) -> u64 {
        let is_of_class = |block: *mut Block| {
            let slot = page::lookup(block.cast()).filter(|_| block.is_aligned());
            slot.map(Meta::head).is_some_and(|page| {
                page.kind() == Kind::Page && usize::from(page.class.get()) == class
            })
        };
        let (mut count, mut seen) = (0, 0);
        let mut block = self.owner.front.lists[class].free.get();
        while is_of_class(block) && seen <= arena::SEGMENT / 8 {
            seen += 1;
            count += u64::from(range.contains(&block.addr()));
            // SAFETY: `is_of_class` found the page that the block lies in, so its memory is
            // readable. The caller promises that no thread writes it. `Block::next` would end the
            // process for a wrong link.
            block = unsafe { Block::decoded(block, (*block).next.get()) };
        }
        count
    }
}
