//! A thread's heap: a free list for each class, and the pages they come from.
//!
//! ```text
//! malloc:  front.free[class] → pop            (the list of the current page, held whole)
//! free:    page.free ← push, needed -= 1      (page by arithmetic, owner by one comparison)
//! ```
//!
//! The slow path of malloc, in this order: merge the inbox, take the current page's own list, carve fresh blocks, go
//! on to the next page of the class (putting full ones to sleep), take a retained empty page, claim a page.
//!
//! Rules
//! 1. Everything but `inbox`, `link`, `state` and `next_heap` belongs to the thread that has the heap.
//! 2. A heap is had by one thread at a time: from `Pool::pop` (or its making) to `Pool::push`; its memory is for ever.
//! 3. `busy` is set while pages move between lists: a fork that meets it set cannot use the heap in the child.
//!    Outside of that every state is consistent: a pop is one store, and a push that lost its countdown only makes a
//!    page look fuller than it is.
//! 4. The inbox is merged before a page's list is handed out (`page` rule 4).

use crate::arena::{self, PAGE};
use crate::guard;
use crate::page::{self, Block, Meta, Owner, Place};
use crate::parcel::Parcel;
use crate::policy;
use crate::proto::inbox::{Inbox, Link};
use crate::remote::Outgoing;
use crate::size_class::{CLASSES, SIZES, TABLE16};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{holes, large, os, segment, sparse, usage};
use core::cell::Cell;
use core::ptr::{NonNull, null_mut};
use crossbeam_utils::CachePadded;

/// What the fast path reads. A heap starts with it; the empty and the dead heap consist of it.
#[repr(C)]
pub struct Front {
    /// The list of each class.
    pub free: [Cell<*mut Block>; CLASSES],
    /// `size_class::CLASS16`.
    pub class16: [u8; TABLE16],
}

/// Counters of one class, kept where lists change hands.
#[derive(Default)]
pub struct Counts {
    /// Blocks put on the heap's list.
    pub handed: Cell<u64>,
    /// Blocks found freed when a page's list was taken or the page given up. Below zero while blocks that were put back
    /// unused wait to be found.
    pub returned: Cell<i64>,
    /// Lists taken from pages.
    pub takes: Cell<u32>,
    /// Batches of fresh blocks.
    pub carves: Cell<u32>,
    /// Pages put to sleep because they were full.
    pub sleeps: Cell<u32>,
    /// Pages woken.
    pub wakes: Cell<u32>,
    /// Pages claimed from segments.
    pub claims: Cell<u32>,
    /// Pages given up empty.
    pub empties: Cell<u32>,
}

/// A thread's heap.
#[repr(C, align(4096))]
pub struct Heap {
    /// What the fast path reads.
    pub front: Front,
    queue: [Cell<*mut Meta>; CLASSES],
    retained: Cell<*mut Meta>,
    retained_len: Cell<u32>,
    /// Which of `cooling` is the oldest.
    oldest: Cell<u32>,
    /// Pages of which few blocks are out since a short time.
    cooling: [Cell<*mut Meta>; COOLING],
    /// Pages that the heap has.
    pages: Cell<u32>,
    outgoing: Outgoing,
    /// See rule 3.
    busy: Cell<bool>,
    /// The heap was another thread's when the process forked: a push may have been cut short, and its lists are not
    /// walked.
    inherited: Cell<bool>,
    /// Set when a page went back to its segment; who sees it clears it and lets the purge know.
    pub released: Cell<bool>,
    /// Change of the live bytes not yet added to the process's, and its highest value.
    live: Cell<i64>,
    high: Cell<i64>,
    /// Change of the bytes carved in pages of one slot, not yet told to the segments.
    carved: Cell<i64>,
    large: large::Cache,
    /// Large blocks allocated and freed by this heap's threads.
    pub large_handed: Cell<u64>,
    /// See `large_handed`.
    pub large_returned: Cell<u64>,
    /// Blocks received through the inbox.
    pub received: Cell<u64>,
    /// Blocks freed for other heaps.
    pub sent: Cell<u64>,
    /// Counters by class.
    pub counts: [Counts; CLASSES],
    /// Who has it: see `thread`.
    pub state: AtomicU32,
    /// Link of the pool of idle heaps.
    pub link: AtomicU64,
    /// The heap made before this one.
    pub next_heap: AtomicPtr<Heap>,
    inbox: CachePadded<Inbox<Parcel>>,
}

const _: () = assert!(size_of::<Heap>() == 4096);

/// Of the lists that change hands, one in this many is walked to its end; the others are looked at where they begin.
/// To walk all of them would cost 6 instructions a pair.
const WALK_EVERY: u32 = 128;

/// Pages that come to have few blocks out before another such is set aside: time for the rest of its blocks to come
/// back too, where all are being freed.
const COOLING: usize = 4;

/// Pages of a class that a heap has claimed before fresh ones are faulted in whole.
const FILLED: u32 = 4;

/// A heap tells the process's total of live bytes in steps of this many.
const REPORT_BYTES: u64 = 1 << 20;

/// A block, and whether all of it is zero.
pub type Fresh = (NonNull<Block>, bool);

/// The inbox of an owner of pages.
pub fn inbox_of(owner: *mut Owner) -> &'static Inbox<Parcel> {
    if owner == sparse::owner() {
        return sparse::inbox();
    }
    // SAFETY: all other owners are heaps, which are for ever; the inbox may be shared.
    unsafe { &(*owner.cast::<Heap>()).inbox }
}

fn add<T: Copy + core::ops::Add<Output = T>>(counter: &Cell<T>, n: T) {
    counter.set(counter.get() + n);
}

impl Heap {
    /// The heap as pages name it.
    #[inline]
    pub fn owner(&self) -> *mut Owner {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// Runs `f` with `busy` set (rule 3). Not to be nested.
    #[inline(always)]
    fn busy<R>(&self, f: impl FnOnce() -> R) -> R {
        use core::sync::atomic::{Ordering::SeqCst, compiler_fence};
        self.busy.set(true);
        compiler_fence(SeqCst);
        let result = f();
        compiler_fence(SeqCst);
        self.busy.set(false);
        result
    }

    /// In the child of a fork, which counts anew: forgets what the parent did. Blocks in the lists are not handed out.
    pub fn reset_counts(&self) {
        for (class, counts) in self.counts.iter().enumerate() {
            counts.handed.set(self.listed(class));
            counts.returned.set(0);
            for counter in [&counts.takes, &counts.carves, &counts.sleeps, &counts.wakes, &counts.claims, &counts.empties] {
                counter.set(0);
            }
        }
        self.large_handed.set(0);
        self.large_returned.set(0);
    }

    /// In the child of a fork: makes a heap whose thread is gone fit for adoption. False: it is lost.
    pub fn after_fork(&self) -> bool {
        self.outgoing.forget();
        self.large.forget();
        self.inherited.set(true);
        !self.busy.get()
    }

    // ---- allocation -------------------------------------------------------------------------------------------

    /// A block of `class` by the slow path; the class's list is empty, and is refilled. None: out of memory. Amortised O(1): each page
    /// put to sleep on the way takes a share of its blocks freed to come back.
    #[cold]
    #[inline(never)]
    pub fn refill(&self, class: usize) -> Option<Fresh> {
        debug_assert!(class < CLASSES);
        self.busy(|| {
            self.receive_mail();
            // SAFETY: pages in the queue are this heap's.
            if let Some(page) = unsafe { self.queue[class].get().as_ref() }
                && !page.free.get().is_null()
            {
                return Some((self.take(class, page), false));
            }
            self.refill_further(class)
        })
    }

    /// The rest of `refill`: the current page's own list is empty.
    #[inline(never)]
    fn refill_further(&self, class: usize) -> Option<Fresh> {
        // SAFETY: pages in the queue are this heap's.
        while let Some(page) = unsafe { self.queue[class].get().as_ref() } {
            if !page.free.get().is_null() {
                return Some((self.take(class, page), false));
            }
            if page.carved.get() < page.cap.get() {
                return Some((self.carve(class, page), page.zero.get()));
            }
            if let Some(block) = self.fill_hole(class, page) {
                return Some((block, false));
            }
            self.put_to_sleep(class, page);
        }
        self.send_mail();
        if let Some(page) = sparse::take_back(class, self.owner(), inbox_of) {
            self.pages.set(self.pages.get() + 1);
            self.push_front(class, page);
            return self.refill_further(class);
        }
        let page = self.new_page(class)?;
        self.push_front(class, page);
        Some((self.carve(class, page), page.zero.get()))
    }

    /// Merges what others freed (rule 4).
    #[inline(always)]
    fn receive_mail(&self) {
        if !self.inbox.is_empty() {
            self.merge_mail();
        }
    }

    /// Sends what was freed for others. Before the heap takes more memory, not on each refill: that made batches of a
    /// dozen blocks.
    fn send_mail(&self) {
        if self.outgoing.is_pending() {
            self.outgoing.send_all(inbox_of);
        }
    }

    /// Takes a page's whole list: its first block is returned, the rest becomes the heap's.
    #[inline(always)]
    fn take(&self, class: usize, page: &Meta) -> NonNull<Block> {
        debug_assert!(page.place.get() == Place::Resting || page.owner.load(Relaxed) == self.owner());
        let list = page.free.replace(null_mut());
        let length = page.listed();
        page.count_down(page.carved.get() as i32 - i32::from(page.absent.get()), 0);
        if page.place.get() != Place::Queue {
            self.back_in_use(page);
        }
        let counts = &self.counts[class];
        add(&counts.handed, length as u64);
        add(&counts.returned, i64::from(length));
        add(&counts.takes, 1);
        guard::peek(list, page);
        if counts.takes.get().is_multiple_of(WALK_EVERY) && !self.inherited.get() {
            guard::walk(list, length, page);
        }
        // SAFETY: the list is not empty, and its blocks are free (rule 4 of `page`).
        unsafe {
            self.front.free[class].set((*list).next.get());
            NonNull::new_unchecked(list)
        }
    }

    /// The current page was resting or cooling.
    #[cold]
    #[inline(never)]
    fn back_in_use(&self, page: &Meta) {
        self.stop_cooling(page);
        page.place.set(Place::Queue);
        page.owner.store(self.owner(), Relaxed);
    }

    /// Blocks of the page's first hole: the first is returned, the rest becomes the heap's list.
    fn fill_hole(&self, class: usize, page: &Meta) -> Option<NonNull<Block>> {
        let (first, count) = holes::fill(page)?;
        page.needed.set(page.needed.get() + count as i32);
        // They came back before the hole was dug, which was not counted yet.
        add(&self.counts[class].handed, u64::from(count));
        add(&self.counts[class].returned, i64::from(count));
        // SAFETY: blocks of the page that were absent; a list of at least one.
        unsafe {
            self.front.free[class].set(Block::next(first));
            NonNull::new(first)
        }
    }

    /// Links fresh blocks, in the order of their addresses: the first is returned, the rest becomes the heap's list.
    fn carve(&self, class: usize, page: &Meta) -> NonNull<Block> {
        let size = page.block_size.get() as usize;
        let left = page.cap.get() - page.carved.get();
        let count = (policy::CARVE_BYTES.get() / size as u32).clamp(1, left);
        let first = page.start().wrapping_add(page.carved.get() as usize * size);
        let mut list = null_mut();
        for i in (1..count as usize).rev() {
            let block = first.wrapping_add(i * size).cast::<Block>();
            // SAFETY: inside the page, beyond what was carved: nobody's.
            unsafe { Block::set_next(block, list) };
            list = block;
        }
        page.carved.set(page.carved.get() + count);
        page.needed.set(page.needed.get() + count as i32);
        self.front.free[class].set(list);
        add(&self.counts[class].handed, u64::from(count));
        add(&self.counts[class].carves, 1);
        self.note_carved(page, i64::from(count) * size as i64);
        // SAFETY: inside the arena, so not null.
        unsafe { NonNull::new_unchecked(first.cast()) }
    }

    /// Takes the first page of the queue out: all its blocks are out.
    fn put_to_sleep(&self, class: usize, page: &Meta) {
        debug_assert!(page.absent.get() == 0 && page.listed() == 0);
        self.unlink(class, page);
        let threshold = (page.cap.get() / policy::WAKE_FRACTION.get().max(1)).max(1) as i32;
        page.wake_at.set(threshold);
        page.needed.set(threshold);
        page.place.set(Place::Asleep);
        add(&self.counts[class].sleeps, 1);
    }

    /// An empty page for `class`: retained, or claimed from a segment.
    fn new_page(&self, class: usize) -> Option<&'static Meta> {
        let size = SIZES[class];
        let span = span_of(size);
        let retained = self.retained.get();
        let (page, zero) = if span == 1 && !retained.is_null() {
            // SAFETY: the heap's own page.
            let page = unsafe { &*retained };
            self.retained.set(page.next.get());
            self.retained_len.set(self.retained_len.get() - 1);
            (page, false)
        } else {
            let (page, zero) = segment::claim(span)?;
            if span == 1 {
                segment::note_small(1);
            }
            add(&self.counts[class].claims, 1);
            // A class that has filled pages will fill this one too: one call is cheaper than 16 faults.
            let fills_pages = self.counts[class].claims.get() > FILLED;
            if zero
                && span == 1
                && fills_pages
                && self.pages.get() >= policy::POPULATE_FROM_PAGES.get()
            {
                self.populate(page);
            }
            (page, zero)
        };
        page.open(self.owner(), class, size, span, zero);
        self.pages.set(self.pages.get() + 1);
        Some(page)
    }

    fn populate(&self, page: &Meta) {
        if page.segment().huge.load(Relaxed) == 0 {
            os::populate(page.start().addr(), PAGE);
        }
    }

    // ---- freeing ----------------------------------------------------------------------------------------------

    /// Frees a block of a page of this heap. True: the page's countdown is over, and `counted_down` must follow.
    ///
    /// # Safety
    /// The calling thread has the heap that owns the page; the block is live and the caller's to free.
    #[inline(always)]
    #[must_use]
    pub unsafe fn push_freed(page: &Meta, block: *mut Block) -> bool {
        // SAFETY: the block is free from now on.
        unsafe { Block::set_next(block, page.free.get()) };
        page.free.set(block);
        let needed = page.needed.get() - 1;
        page.needed.set(needed);
        needed == 0
    }

    /// Frees a block of a page of this heap, to the end. `busy` is set.
    ///
    /// # Safety
    /// As [`Heap::push_freed`].
    unsafe fn free_local(&self, page: &Meta, block: *mut Block) {
        // SAFETY: passed on.
        if unsafe { Heap::push_freed(page, block) } {
            self.wake_or_empty(page);
        }
    }

    /// Frees a block of another heap's page, by way of a batch.
    ///
    /// # Safety
    /// The block is live, of `page`, and the caller's to free; the calling thread has this heap.
    #[inline]
    pub unsafe fn free_remote(&self, page: &Meta, block: *mut Block) {
        self.sent.set(self.sent.get() + 1);
        // SAFETY: passed on.
        unsafe { self.outgoing.add(page, block, policy::BATCH_BYTES.get(), inbox_of) };
    }

    /// Frees a block of `owner` from a thread that has no heap.
    ///
    /// # Safety
    /// The block is live, of a page of `owner`, and the caller's to free.
    pub unsafe fn send_one(page: &Meta, owner: *mut Owner, block: *mut Block) {
        // SAFETY: inboxes are for ever; a chain of one parcel of one block, which is the caller's.
        unsafe {
            let parcel = Parcel::new(block, page.block_size.get());
            inbox_of(owner).push_chain(parcel, parcel);
        }
    }

    /// Merges what other threads freed into the pages' own lists (rule 4). O(parcels).
    #[inline(never)]
    fn merge_mail(&self) {
        let mut parcel = self.inbox.take();
        let mut count = 0;
        while !parcel.is_null() {
            let block = Parcel::block(parcel).cast();
            let Some(slot) = page::lookup(block) else { guard::corrupt(block) };
            let page = slot.head_of_block();
            // SAFETY: the parcel is this heap's since it was taken, and is left alone once it is spliced or passed on.
            let (next, length) = unsafe { (Parcel::next(parcel), Parcel::len(parcel)) };
            let owner = page.owner.load(Relaxed);
            if owner != self.owner() {
                // The page was set aside meanwhile.
                if owner.is_null() {
                    guard::corrupt(block);
                }
                // SAFETY: as above.
                unsafe { inbox_of(owner).push_chain(parcel, parcel) };
                parcel = next;
                continue;
            }
            // SAFETY: as above.
            unsafe { page.free.set(Parcel::splice(parcel, page.free.get())) };
            page.needed.set(page.needed.get() - length as i32);
            if page.needed.get() <= 0 {
                self.wake_or_empty(page);
            }
            count += u64::from(length);
            parcel = next;
        }
        add(&self.received, count);
    }

    /// A page of this heap counted down to zero: it is worth waking, or empty.
    #[inline(always)]
    pub fn counted_down(&self, page: &Meta) {
        self.busy(|| self.wake_or_empty(page));
    }

    fn wake_or_empty(&self, page: &Meta) {
        debug_assert!(page.owner.load(Relaxed) == self.owner() && page.place.get() != Place::Sparse);
        let class = usize::from(page.class.get());
        // A merged parcel may have gone beyond the threshold.
        let out = if page.place.get() == Place::Asleep {
            page.place.set(Place::Queue);
            add(&self.counts[class].wakes, 1);
            self.push_second(class, page);
            let out = page.carved.get() as i32 - page.wake_at.get() + page.needed.get();
            let base = sparse::most_out(page.cap.get());
            if out > i32::from(base) {
                return page.count_down(out, base);
            }
            out
        } else {
            page.needed.get() + i32::from(page.base.get())
        };
        page.count_down(out, 0);
        if out > 0 {
            return self.cool(class, page);
        }
        if out < 0 {
            guard::double_free(page.free.get().cast(), page);
        }
        self.stop_cooling(page);
        if self.queue[class].get() == page.raw() && page.next.get().is_null() {
            // The class's only page: giving it up would only mean claiming it again.
            page.place.set(Place::Resting);
            page.owner.store(null_mut(), Relaxed);
            return;
        }
        self.unlink(class, page);
        self.give_up(class, page, policy::RETAINED_PAGES.get());
    }

    // ---- pages with few blocks out ----------------------------------------------------------------------------

    /// Few blocks of the page are out: it is set aside once some other pages have come to that.
    fn cool(&self, class: usize, page: &Meta) {
        if self.queue[class].get() == page.raw() {
            return; // The current page.
        }
        page.place.set(Place::Cooling);
        let i = self.oldest.get() as usize % COOLING;
        self.oldest.set(i as u32 + 1);
        let oldest = self.cooling[i].replace(page.raw());
        // SAFETY: the heap's own pages (see `stop_cooling`).
        if let Some(oldest) = unsafe { oldest.as_ref() } {
            self.set_aside(oldest);
        }
    }

    fn set_aside(&self, page: &Meta) {
        let class = usize::from(page.class.get());
        page.place.set(Place::Queue);
        if self.queue[class].get() == page.raw() {
            return; // The current page by now.
        }
        self.unlink(class, page);
        if sparse::set_aside(page) {
            self.pages.set(self.pages.get() - 1);
            self.released.set(true);
        } else {
            self.push_second(class, page);
        }
    }

    /// The page is not to be set aside any more.
    fn stop_cooling(&self, page: &Meta) {
        if page.place.get() == Place::Cooling {
            page.place.set(Place::Queue);
            for cooling in self.cooling.iter().filter(|c| c.get() == page.raw()) {
                cooling.set(null_mut());
            }
        }
    }

    /// Ends an empty page that is in no queue; it is retained if there are fewer than `keep`.
    fn give_up(&self, class: usize, page: &'_ Meta, keep: u32) {
        let blocks = page.carved.get();
        let counts = &self.counts[class];
        if counts.empties.get().is_multiple_of(WALK_EVERY) && !self.inherited.get() {
            guard::walk(page.free.get(), page.listed(), page);
        }
        add(&counts.returned, i64::from(blocks));
        add(&counts.empties, 1);
        self.note_carved(page, -(i64::from(blocks) * i64::from(page.block_size.get())));
        self.pages.set(self.pages.get() - 1);
        let span = page.span.load(Relaxed);
        page.close();
        if span == 1 && self.retained_len.get() < keep {
            page.place.set(Place::Retained);
            page.next.set(self.retained.get());
            self.retained.set(page.raw());
            self.retained_len.set(self.retained_len.get() + 1);
            return;
        }
        if span == 1 {
            segment::note_small(-1);
        }
        // SAFETY: the page is closed and empty.
        unsafe { segment::release(page, span) };
        self.released.set(true);
    }

    // ---- large blocks -----------------------------------------------------------------------------------------

    /// See [`large::alloc`].
    pub fn alloc_large(&self, n: usize) -> Option<(&'static Meta, bool)> {
        let got = large::alloc(&self.large, n)?;
        add(&self.large_handed, 1);
        self.note_live(large::size(got.0) as i64);
        Some(got)
    }

    /// See [`large::free`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn free_large(&self, meta: &Meta) -> bool {
        add(&self.large_returned, 1);
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

    // ---- queues -----------------------------------------------------------------------------------------------

    fn unlink(&self, class: usize, page: &Meta) {
        debug_assert!(page.place.get() == Place::Resting || page.owner.load(Relaxed) == self.owner());
        let (prev, next) = (page.prev.get(), page.next.get());
        // SAFETY: neighbours in the queue are this heap's pages.
        unsafe {
            match prev.as_ref() {
                Some(prev) => prev.next.set(next),
                None => self.queue[class].set(next),
            }
            if let Some(next) = next.as_ref() {
                next.prev.set(prev);
            }
        }
    }

    fn push_front(&self, class: usize, page: &Meta) {
        let first = self.queue[class].replace(page.raw());
        page.prev.set(null_mut());
        page.next.set(first);
        // SAFETY: as in `unlink`.
        if let Some(first) = unsafe { first.as_ref() } {
            first.prev.set(page.raw());
        }
    }

    /// Puts a page behind the current one, which keeps its place.
    fn push_second(&self, class: usize, page: &Meta) {
        // SAFETY: as in `unlink`.
        let Some(first) = (unsafe { self.queue[class].get().as_ref() }) else {
            return self.push_front(class, page);
        };
        let next = first.next.replace(page.raw());
        page.prev.set(first.raw());
        page.next.set(next);
        // SAFETY: as in `unlink`.
        if let Some(next) = unsafe { next.as_ref() } {
            next.prev.set(page.raw());
        }
    }

    // ---- giving back ------------------------------------------------------------------------------------------

    /// Gives up everything that is free: blocks in the lists go back to their pages, empty pages to their segments,
    /// batches to their owners. O(classes + blocks in lists).
    pub fn collect(&self) {
        self.busy(|| {
            self.receive_mail();
            self.send_mail();
            for class in 0..CLASSES {
                let mut block = self.front.free[class].replace(null_mut());
                let mut unused = 0;
                while !block.is_null() {
                    // SAFETY: the heap's own list; the link is read before the block is pushed.
                    let next = unsafe { Block::next(block) };
                    let Some(page) = page::lookup(block.cast()) else { guard::corrupt(block.cast()) };
                    // SAFETY: blocks of the heap's lists are of its pages, and free to push.
                    unsafe { self.free_local(page.head(), block) };
                    block = next;
                    unused += 1;
                }
                // They were never used: neither handed out nor returned.
                let counts = &self.counts[class];
                counts.handed.set(counts.handed.get() - unused);
                add(&counts.returned, -(unused as i64));
                // SAFETY: pages in the queue are this heap's.
                if let Some(page) = unsafe { self.queue[class].get().as_ref() }
                    && page.place.get() == Place::Resting
                {
                    self.unlink(class, page);
                    self.give_up(class, page, 0);
                }
            }
            for cooling in &self.cooling {
                // SAFETY: the heap's own pages (see `stop_cooling`).
                if let Some(page) = unsafe { cooling.replace(null_mut()).as_ref() } {
                    self.set_aside(page);
                }
            }
            self.large.empty();
            // SAFETY: retained pages are this heap's.
            while let Some(page) = unsafe { self.retained.get().as_ref() } {
                self.retained.set(page.next.get());
                self.retained_len.set(self.retained_len.get() - 1);
                // SAFETY: closed and empty since it was retained.
                unsafe { segment::release(page, 1) };
                segment::note_small(-1);
            }
            self.report_live();
        });
    }

    /// The thread ends: what it holds of other heaps and of the segments goes back. O(1).
    pub fn hand_over(&self) {
        self.busy(|| {
            self.send_mail();
            self.large.empty();
            self.report_live();
        });
    }

    /// Pages that the heap has.
    pub fn pages(&self) -> u32 {
        self.pages.get()
    }

    /// True if other threads have freed blocks that are not merged yet.
    pub fn has_mail(&self) -> bool {
        !self.inbox.is_empty()
    }

    fn note_carved(&self, page: &Meta, change: i64) {
        self.note_live(change);
        if page.span.load(Relaxed) == 1 {
            add(&self.carved, change);
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
    pub fn report_live(&self) {
        usage::add(self.live.replace(0), self.high.replace(0));
    }

    /// Blocks of `class` in the heap's list. O(their number); exact for a heap at rest.
    pub fn listed(&self, class: usize) -> u64 {
        let mut count = 0;
        let mut block = self.front.free[class].get();
        while !block.is_null() && count <= (arena::SEGMENT / 8) as u64 {
            count += 1;
            // SAFETY: the caller knows that the heap is at rest, or is its thread.
            block = unsafe { Block::next(block) };
        }
        count
    }
}

/// Slots of a page for blocks of `size` bytes: one, and eight from 8 KiB up, so that a page holds eight at least.
pub const fn span_of(size: u32) -> u32 {
    if size <= 8 << 10 { 1 } else { 8 }
}
