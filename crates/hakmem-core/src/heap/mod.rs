//! A thread's heap: a free list for each class, and the pages they come from.
//!
//! ```text
//! malloc:  owner.front.free[class] → pop            (the list of the current page, held whole)
//! free:    page.free ← push, until_slow -= 1      (page by arithmetic, owner by one comparison)
//! ```
//!
//! The slow path of malloc, in this order: merge the inbox, take the current page's own list, carve fresh blocks, go
//! on to the next page of the class (putting full ones to sleep), take blocks of a shared page (`share`), take back a page
//! that was parked, take a cached empty page, claim a page.
//!
//! Rules
//! 1. A `Heap` belongs to its holder. Any other thread has a [`SharedHeap`] of it.
//! 2. A heap is had by one thread at a time: from `IdStack::pop` (or its making) to `IdStack::push`; its memory is for ever.
//! 3. `busy` is set while pages move between lists: a fork that meets it set cannot use the heap in the child.
//!    Outside of that every state is consistent: a pop is one store, and a push that lost its countdown only makes a
//!    page look fuller than it is.
//! 4. The inbox is merged before a page's list is handed out (`page` rule 4).

pub mod all;
pub mod counts;
mod free;
mod give;
pub(crate) mod holes;
mod park;
pub(crate) mod parked;
pub mod peak;
pub mod pool;
mod refill;
pub mod region;
pub(crate) mod remote;
mod sampled;
mod share;
pub mod shared;
// Miri has no fork, and models have one of their own.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests;

use crate::backend::arena;
use crate::backend::owner::{HEAP_SHIFT, Owner};
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{self, Block, Kind, Meta, PageState};
use crate::backend::segment;
use crate::base::counter::Counter;
use crate::base::size_class::CLASSES;
use crate::base::sync::plain::AtomicBool;
use crate::base::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::base::usage;
use crate::heap::remote::Outgoing;
use crate::large;
use crate::policy::learn;
use crate::profile::Sampler;
use crate::proto::heap_state::HeapState;
use crate::proto::inbox::Link;
use core::cell::Cell;
use core::ptr::{NonNull, null};
use counts::Counts;
use shared::SharedHeap;

/// A thread's heap.
#[repr(C, align(8192))]
pub struct Heap {
    /// What the fast path reads, and the inbox.
    pub owner: Owner,
    queue: [PageQueue; CLASSES],
    cached: PageQueue,
    cached_len: Cell<u32>,
    /// What it has got of shared pages: see `share`.
    shared: share::Shared,
    /// Which of `candidates` is the oldest.
    oldest: Cell<u32>,
    /// Pages of which few blocks are out since a short time.
    candidates: [Cell<*mut Meta>; CANDIDATES],
    /// Pages that the heap has.
    pages: Cell<u32>,
    /// A list that changes hands is walked to its end when its number is this, modulo twice `WALK_EVERY`.
    walked: Cell<u32>,
    /// Blocks on their way to other heaps.
    pub outgoing: Outgoing,
    /// See rule 3.
    busy: AtomicBool,
    /// The heap was another thread's when the process forked: a push may have been cut short, and its lists are not
    /// walked.
    inherited: Cell<bool>,
    /// Set when a page went back to its segment; who sees it clears it and lets the purge know.
    pub released: Cell<bool>,
    /// The class whose counters get room next (`now_and_then`).
    turn: Cell<u8>,
    /// What `walked` was drawn by; 0: it was not yet.
    dice: Cell<u32>,
    /// Change of the live bytes not yet added to the process's, and its highest value.
    live: Counter<i64>,
    high: Cell<i64>,
    /// Change of the bytes carved in pages of one slot, not yet told to the segments.
    carved: Cell<i64>,
    large: large::Cache,
    /// When a sample of the profile is due; null until there is one.
    sampler: Cell<*const Sampler>,
    /// Who has it.
    pub(crate) state: HeapState,
    /// The number of its thread, if that cannot tell that it ends (`pool` rule 2); 0: it can, or has ended.
    thread: AtomicU32,
    /// Link of the pool of idle heaps.
    link: AtomicU64,
    /// The heap made before this one.
    pub(crate) next_heap: AtomicPtr<SharedHeap>,
    /// What it counts. The last classes' counters lie behind the first 4 KiB, which is all that a thread with little
    /// of small blocks makes resident.
    pub counts: Counts,
}

const _: () = assert!(size_of::<Heap>() == 1 << HEAP_SHIFT);

/// Of the lists that change hands, one in this many is walked to its end, on average; the others are looked at where they begin.
/// To walk all of them would cost 6 instructions a pair.
const WALK_EVERY: u32 = 128;

/// Pages that come to have few blocks out before another such is parked: time for the rest of its blocks to come
/// back too, where all are being freed.
const CANDIDATES: usize = 4;

/// A heap tells the process's total of live bytes in steps of this many.
const REPORT_BYTES: u64 = 1 << 20;

pub use crate::base::size_class::span_of;
#[cfg_attr(any(miri, shuttle), allow(unused_imports, reason = "these have no note of where it lies"))]
pub use free::STRAY;
pub use free::{reset_stray_frees, stray_frees};

/// A block, and whether all of it is zero.
pub type Fresh = (NonNull<Block>, bool);

impl Heap {
    /// The heap as pages name it.
    #[inline]
    pub fn owner(&self) -> *mut Owner {
        self.owner.as_word()
    }

    /// Runs `f` with `busy` set (rule 3). Not to be nested.
    #[inline(always)]
    fn busy<R>(&self, f: impl FnOnce() -> R) -> R {
        use core::sync::atomic::{Ordering::SeqCst, compiler_fence};
        self.busy.store(true, Relaxed);
        compiler_fence(SeqCst);
        let result = f();
        compiler_fence(SeqCst);
        self.busy.store(false, Relaxed);
        result
    }

    /// In the child of a fork, which counts anew: forgets what the parent did.
    pub fn reset_counts(&self) {
        // SAFETY: the child has one thread. A link that is torn ends the walk: see `listed_within`.
        self.counts.reset(|class| unsafe { self.listed(class) });
        self.outgoing.reset_counts();
    }

    /// In the child of a fork: makes a heap whose thread is gone fit for adoption. False: it is lost.
    pub fn after_fork(&self) -> bool {
        self.outgoing.forget();
        self.large.forget();
        self.sampler.set(null()); // Its scratch may be in use for ever.
        self.inherited.set(true);
        !self.is_busy()
    }

    /// See [`large::cached`].
    pub fn cached_large(&self, n: usize) -> Option<&'static Meta> {
        let meta = large::cached(&self.large, n)?;
        self.counts.large_hits.add(1);
        self.large_allocated(meta);
        Some(meta)
    }

    /// See [`large::fresh`].
    pub fn fresh_large(&self, n: usize) -> Option<(&'static Meta, bool)> {
        let got = large::fresh(n)?;
        self.large_allocated(got.0);
        Some(got)
    }

    fn large_allocated(&self, meta: &Meta) {
        self.counts.large_allocated.add(1);
        self.note_live(large::size(meta) as i64);
    }

    /// See [`large::free`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn free_large(&self, meta: &Meta) -> bool {
        self.counts.large_freed.add(1);
        self.note_live(-(large::size(meta) as i64));
        // SAFETY: passed on.
        unsafe { large::free(Some(&self.large), meta) }
    }

    /// See [`large::resize`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn resize_large(&self, meta: &Meta, n: usize) -> bool {
        // SAFETY: passed on.
        let Some(change) = (unsafe { large::resize(meta, n) }) else { return false };
        self.note_live(change);
        true
    }

    /// True in the middle of a change (rule 3): its thread asks, in a signal handler.
    pub fn is_busy(&self) -> bool {
        self.shared().is_busy()
    }

    /// Blocks of the page of `class` that rests, empty: it has no owner. For a heap that is the caller's.
    pub fn retired(&self, class: usize) -> u64 {
        let page = self.queue[class].first();
        page.filter(|page| page.state.get() == PageState::Retired).map_or(0, |page| u64::from(page.carved.get()))
    }

    fn note_carved(&self, page: &Meta, change: i64) {
        self.note_live(change);
        if page.span.load(Relaxed) == 1 {
            self.carved.set(self.carved.get() + change);
            if self.carved.get().unsigned_abs() >= REPORT_BYTES {
                segment::note_carved(self.carved.replace(0));
            }
        }
    }

    fn note_live(&self, change: i64) {
        let live = self.live.get() + change;
        self.live.set(live);
        if live > self.high.get() {
            self.high.set(live);
        }
        if live.unsigned_abs() >= REPORT_BYTES {
            self.report_live();
        }
    }

    /// Adds what the heap has noted to the process's total.
    #[cold]
    #[inline(never)]
    pub fn report_live(&self) {
        let (change, high) = (self.live.get(), self.high.replace(0));
        self.live.set(0);
        Self::tell_live(change, high);
    }

    /// Tells the process's total of a change, on the way to which it stood `high` above where it was.
    fn tell_live(change: i64, high: i64) {
        if let Some(peak) = usage::add(change, high) {
            peak::note(peak);
        }
        learn::slots(change, high);
    }

    /// Blocks of `class` in the heap's list. O(their number); exact for a heap at rest.
    ///
    /// # Safety
    /// As [`Heap::listed_within`].
    pub unsafe fn listed(&self, class: usize) -> u64 {
        // SAFETY: the caller promises the same.
        unsafe { self.listed_within(class, 0..usize::MAX) }
    }

    /// As [`Heap::listed`], of those that start in a range of addresses.
    ///
    /// In the child of a fork, another thread's list may be of a later moment than the links in its blocks: pages that are
    /// pinned for input and output are copied apart. So a link is followed only if it leads to a page of the class.
    ///
    /// # Safety
    /// No thread changes the list or writes its blocks during the call.
    pub unsafe fn listed_within(&self, class: usize, range: core::ops::Range<usize>) -> u64 {
        let is_of_class = |block: *mut Block| {
            let slot = page::lookup(block.cast()).filter(|_| block.is_aligned());
            slot.map(Meta::head).is_some_and(|page| page.kind() == Kind::Page && usize::from(page.class.get()) == class)
        };
        let (mut count, mut seen) = (0, 0);
        let mut block = self.owner.front.free[class].get();
        while is_of_class(block) && seen <= arena::SEGMENT / 8 {
            seen += 1;
            count += u64::from(range.contains(&block.addr()));
            // SAFETY: `is_of_class` found the page that the block lies in, whose memory can be read; nobody writes it (see above).
            block = unsafe { Block::next(block) };
        }
        count
    }
}
