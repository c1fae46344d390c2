//! Refill: allocation when the heap's list of a class is empty.

mod sampled;
pub(in crate::heap) mod share;

use crate::backend::arena::SLOT;
use crate::backend::page::{Block, Meta, PageState};
use crate::backend::{check, first_touch, held, segment};
use crate::base::size_class::{CLASSES, FIRST_LONG, SIZES, span_of};
use crate::base::sync::Ordering::Relaxed;
use crate::heap::counts::HeapEvent;
use crate::heap::reclaim::{holes, parked};
use crate::heap::{Found, Heap, WALK_EVERY};
use crate::large::huge;
use crate::proto::inbox::Link;
use crate::{guard, harden, os, policy, profile};
use core::hint::assert_unchecked;
use core::ptr::{NonNull, null_mut};

/// A heap that has claimed more pages of a class than this faults fresh ones in as a whole.
const FILLED: u32 = 4;

/// A heap that has as many pages times the first touch of a fresh one. A program that needs few has
/// no use for the answer.
const TOUCHED: u32 = 4;

/// The largest number of bytes that are carved at a time.
const CARVE_MOST: u32 = 16 << 10;

/// The most free blocks that a full page waits for: an eighth of a page of tiny blocks is hundreds,
/// which no one uses meanwhile.
const UNFULL_MOST: u32 = 32;

/// A heap with so many pages, 8 MiB of small blocks, hardly fits into its core's cache.
pub(in crate::heap) const FAR: u32 = 128;

impl Heap {
    /// Allocates a block of `class` by the slow path: the class's list is empty, and the refill
    /// fills it. `request` is at most the size of the class. None: there is no memory. Amortised
    /// O(1): a share of the frees of a full page pays for the step that found it full.
    #[inline(always)]
    pub fn refill(&self, class: usize, request: usize) -> Option<Found> {
        // One branch for both: neither is on, mostly.
        if profile::run() | guard::every() != 0 {
            return self.refill_sampled(class, request);
        }
        self.refill_unsampled(class)
    }

    /// [`Heap::refill`] without samples: from the current page, or from another one.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) fn refill_unsampled(&self, class: usize) -> Option<Found> {
        debug_assert!(class < CLASSES);
        // SAFETY: a class comes from `size_class` or from a page, and these are below CLASSES.
        unsafe { assert_unchecked(class < CLASSES) };
        if class >= FIRST_LONG {
            self.lengthen_list(class);
        }
        let found = self.busy(|| {
            self.receive_remote_frees();
            if let Some(block) = self.refill_from_scattered(class) {
                return Some((block, false));
            }
            match self.queue[class].first() {
                Some(page) if !page.list.free.get().is_null() => {
                    // SAFETY: the first page of the queue, whose list is not empty.
                    Some((unsafe { self.take(class, page) }, false))
                }
                _ => self.refill_from_another_page(class),
            }
        });
        if let Some(written) = self.to_tell.take() {
            check::tell_written(written);
        }
        found
    }

    /// Refills when the current page's list is empty. It tries, in this order: fresh blocks and
    /// holes of the current page, the further pages of the queue, a shared page, a parked page, a
    /// cached page, a fresh page.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn refill_from_another_page(&self, class: usize) -> Option<Found> {
        if let Some(fresh) = self.refill_from_queue(class) {
            return Some(fresh);
        }
        if self.shares(class)
            && let Some(fresh) = self.share(class)
        {
            return Some(fresh);
        }
        self.send_remote_frees();
        // SAFETY: the calling thread holds this heap (`heap` rule 1), which is never freed.
        while let Some(page) = unsafe { parked::unpark(class, &self.owner) } {
            self.pages.set(self.pages.get().saturating_add(1));
            self.counts.unparked.add(1);
            self.queue[class].push(page);
            if let Some(fresh) = self.refill_from_queue(class) {
                return Some(fresh);
            }
        }
        let page = self.new_page(class)?;
        self.queue[class].push(page);
        // SAFETY: a page of the queue, of which no block was carved.
        Some((unsafe { self.carve(class, page) }, page.zero.get()))
    }

    /// Refills from the first page of the queue that has free blocks. A page without any is full,
    /// and leaves the queue.
    #[inline(always)]
    fn refill_from_queue(&self, class: usize) -> Option<Found> {
        let mut moved_on = 0;
        while let Some(page) = self.queue[class].first() {
            if !page.list.free.get().is_null() {
                self.counts.next_pages.add(moved_on);
                // SAFETY: the first page of the queue, whose list is not empty.
                return Some((unsafe { self.take(class, page) }, false));
            }
            if page.carved.get() < page.cap.get() {
                self.counts.next_pages.add(moved_on);
                // SAFETY: the first page of the queue, with blocks that were never carved.
                return Some((unsafe { self.carve(class, page) }, page.zero.get()));
            }
            // SAFETY: the first page of the queue, which this heap owns. The calling thread holds
            // the heap (`heap` rule 1).
            if let Some(block) = unsafe { self.fill_hole(class, page) } {
                return Some((block, false));
            }
            self.mark_full(class, page);
            moved_on = 1;
        }
        None
    }

    /// Merges the inbox (`heap` rule 4).
    #[inline(always)]
    pub(in crate::heap) fn receive_remote_frees(&self) {
        if !self.owner.inbox().is_empty() {
            self.merge_remote_frees();
        }
    }

    /// Sends the remote batches, unless they are few. The heap does so before it takes more memory,
    /// and not at each refill: that made batches of only a dozen blocks. If its frees are scattered
    /// it waits until it has enough bytes: each send then writes many inboxes.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn send_remote_frees(&self) {
        if self.outgoing.is_worth_sending() && !self.outgoing.is_scattered() {
            self.outgoing.send_all(self);
        } else {
            self.outgoing.send_many_parked(&self.open);
        }
    }

    /// Takes the whole list of a page. Returns its first block; the rest becomes the heap's list.
    ///
    /// # Safety
    /// The page is in this heap's queue of `class`, and its list is not empty.
    #[inline(always)]
    unsafe fn take(&self, class: usize, page: &Meta) -> NonNull<Block> {
        debug_assert!(page.state.get() == PageState::Retired || page.owner() == self.owner());
        if page.state.get() == PageState::Candidate {
            // SAFETY: the caller says that the page is in the queue of `class`, and its list is not
            // empty. Nothing has changed either since.
            return unsafe { self.take_candidate(class, page) };
        }
        if self.pages.get() >= FAR && page.is_long(page.listed()) {
            // SAFETY: as above, and the page is no candidate.
            return unsafe { self.take_far(class, page) };
        }
        // SAFETY: as above, and the page is no candidate.
        unsafe { self.take_list(class, page) }
    }

    /// [`Heap::take`] of a long list in memory that is probably in no cache.
    ///
    /// # Safety
    /// As [`Heap::take_list`].
    #[cold]
    #[inline(never)]
    unsafe fn take_far(&self, class: usize, page: &Meta) -> NonNull<Block> {
        page.fetch();
        // SAFETY: the caller says that the page is in the queue of `class`, that its list is not
        // empty, and that it is no candidate. A fetch changes nothing.
        unsafe { self.take_list(class, page) }
    }

    /// The rest of [`Heap::take`].
    ///
    /// # Safety
    /// As [`Heap::take`], and the page is no candidate.
    #[inline(always)]
    unsafe fn take_list(&self, class: usize, page: &Meta) -> NonNull<Block> {
        let state = page.state.get();
        debug_assert!(state != PageState::Candidate);
        let list = page.list.free.replace(null_mut());
        let length = page.listed();
        page.count_down(page.carved.get() as i32 - i32::from(page.in_holes.get()), 0);
        if state != PageState::Queue {
            // The page was retired.
            page.state.set(PageState::Queue);
            page.set_owner(self.owner());
        }
        self.make_current(class, page);
        self.counts.note(class, HeapEvent::Listed, length as u32);
        let takes = self.counts.note(class, HeapEvent::Takes, 1);
        // SAFETY: the list was not empty. Its blocks are free and on no other list (`page` rule 4),
        // and the heap owns the page or had it retired.
        unsafe {
            if !check::peek(list, length, page) && !self.inherited.get() {
                check::corrupt(list.cast());
            }
            self.owner.front.lists[class].free.set(Block::next(list));
            if self.is_to_walk(takes) {
                return NonNull::new_unchecked(self.now_and_then(class, list, length, page));
            }
            NonNull::new_unchecked(list)
        }
    }

    /// [`Heap::take`] for a candidate, which is none any more.
    ///
    /// # Safety
    /// As [`Heap::take`].
    #[cold]
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    unsafe fn take_candidate(&self, class: usize, page: &Meta) -> NonNull<Block> {
        self.withdraw(page);
        // SAFETY: the caller says that the page is in the queue of `class`, and its list is not
        // empty. `withdraw` changes its state alone.
        unsafe { self.take(class, page) }
    }

    /// True for one of `WALK_EVERY` lists on average, where `count` is the list's number. The
    /// choice is random: else a program could make the same error again and again in lists that are
    /// never checked.
    #[inline(always)]
    pub(in crate::heap) fn is_to_walk(&self, count: u32) -> bool {
        count % (2 * WALK_EVERY) == self.walked.get()
    }

    /// True as often as [`Heap::is_to_walk`], for a list without a number.
    pub(in crate::heap) fn walks_now(&self) -> bool {
        (self.roll() >> 8).is_multiple_of(WALK_EVERY)
    }

    /// Checks such a list to its end, and makes room in counters. The list has `length` blocks of
    /// `page`. Returns the list.
    ///
    /// # Safety
    /// The list is of `page`, and this heap's.
    #[cold]
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) unsafe fn now_and_then(
        &self,
        class: usize,
        list: *mut Block,
        length: i32,
        page: &Meta,
    ) -> *mut Block {
        self.counts.make_room(class);
        // The draw may miss a class for long, so all classes also take turns.
        let turn = usize::from(self.turn.get());
        self.counts.make_room(turn);
        self.turn.set(if turn + 1 < CLASSES { turn as u8 + 1 } else { 0 });
        self.draw();
        if !self.inherited.get() {
            // SAFETY: the caller promises a list of `page`, which this heap has.
            unsafe { check::walk(list, length, page) };
        }
        list
    }

    /// Draws the number of the next list to check: on average the one after `WALK_EVERY`.
    #[cold]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) fn draw(&self) {
        self.walked.set((self.roll() >> 8) % (2 * WALK_EVERY));
    }

    /// A random number.
    fn roll(&self) -> u32 {
        let mut dice = self.dice.get();
        if dice == 0 {
            // The address differs between heaps. It also differs between runs, because the kernel
            // chooses where a region lies.
            let address = core::ptr::from_ref(self).addr() as u64;
            dice = ((address >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1;
        }
        // xorshift: from a number that is not 0 it never comes to 0.
        dice ^= dice << 13;
        dice ^= dice >> 17;
        dice ^= dice << 5;
        self.dice.set(dice);
        dice
    }

    /// Refills from a hole of the page. Returns the first block; the rest becomes the heap's list.
    /// None: the page has no hole.
    ///
    /// # Safety
    /// The calling thread holds the heap, which owns the page.
    pub(in crate::heap) unsafe fn fill_hole(
        &self,
        class: usize,
        page: &Meta,
    ) -> Option<NonNull<Block>> {
        // SAFETY: the caller promises that the thread holds the heap, which owns the page.
        let (first, count) = unsafe { holes::fill(page)? };
        page.list.until_slow.set(page.list.until_slow.get() + count as i32);
        self.make_current(class, page);
        // These blocks were freed before the purge of the hole. The counters see these frees only
        // now.
        self.counts.note(class, HeapEvent::Listed, count);
        self.counts.note(class, HeapEvent::Takes, 1);
        self.counts.holes_filled.add(1);
        // SAFETY: the blocks were in a hole (`holes` rule 2), so they are on this list alone.
        // `fill` returns at least one.
        unsafe {
            self.owner.front.lists[class].free.set(Block::next(first));
            NonNull::new(first)
        }
    }

    /// Carves fresh blocks and links them in the order of their addresses. Returns the first block;
    /// the rest becomes the heap's list.
    ///
    /// # Safety
    /// The page is in this heap's queue of `class`, and not all of its blocks are carved.
    #[unsafe(link_section = ".text.hot.hakmem")]
    unsafe fn carve(&self, class: usize, page: &Meta) -> NonNull<Block> {
        let size = page.block_size.get() as usize;
        let left = page.cap.get() - page.carved.get();
        // The carved part doubles, within bounds: large steps need few calls, and small pages touch
        // little memory that they do not use. Memory that was used before is resident, so there the
        // first step has sixteen blocks.
        let is_resident = !page.zero.get() && !page.is_tail_purged.get();
        let sixteen = if is_resident { CARVE_MOST.min(16 * size as u32) } else { 0 };
        let least = policy::CARVE_BYTES.of(class).max(sixteen);
        let bytes = (page.carved.get() * size as u32).clamp(least, CARVE_MOST.max(least));
        let count = (bytes / size as u32).clamp(1, left);
        let first = page.start().wrapping_add(page.carved.get() as usize * size);
        if harden::ON && !page.zero.get() {
            // SAFETY: the blocks lie in the page, which the heap owns, beyond the carved part: no
            // one uses them.
            unsafe { harden::wipe_blocks(first, size, count as usize) };
        }
        let (mut list, mut at) = (null_mut(), first.wrapping_add((count as usize - 1) * size));
        while at != first {
            let block = at.cast::<Block>();
            // SAFETY: the block lies in the page, which the heap owns, beyond the carved part: no
            // one uses it.
            unsafe { Block::set_next(block, list) };
            if page.zero.get() {
                // SAFETY: the block is free, and no one uses it.
                unsafe { harden::fresh::mark(at, size) };
            }
            list = block;
            at = at.wrapping_sub(size);
        }
        if page.zero.get() {
            // SAFETY: the first block lies in the page, too, and is free.
            unsafe { harden::fresh::mark(first, size) };
        }
        page.carved.set(page.carved.get() + count);
        page.list.until_slow.set(page.list.until_slow.get() + count as i32);
        self.make_current(class, page);
        self.owner.front.lists[class].free.set(list);
        self.counts.note(class, HeapEvent::Listed, count);
        self.counts.existing[class].add(i64::from(count));
        self.counts.note(class, HeapEvent::Carves, 1);
        self.note_carved(page, i64::from(count) * size as i64);
        // SAFETY: the address lies in an arena, so it is not null.
        unsafe { NonNull::new_unchecked(first.cast()) }
    }

    /// Takes the first page out of the queue: all its blocks are used.
    pub(in crate::heap) fn mark_full(&self, class: usize, page: &Meta) {
        debug_assert!(page.in_holes.get() == 0 && page.listed() == 0);
        self.leave_page(class, page);
        self.queue[class].remove(page);
        let part = page.cap.get() / policy::UNFULL_FRACTION.of(class).max(1);
        let threshold = part.clamp(1, UNFULL_MOST) as i32;
        page.unfull_at.set(threshold);
        page.list.until_slow.set(threshold);
        page.state.set(PageState::Full);
        self.counts.note(class, HeapEvent::Filled, 1);
    }

    /// An empty page for `class`: cached, or claimed from a segment. None: there is no memory.
    pub(in crate::heap) fn new_page(&self, class: usize) -> Option<&'static Meta> {
        let size = SIZES[class];
        let span = span_of(size);
        let cached = if span == 1 { self.cached.pop() } else { None };
        let (page, zero) = if let Some(page) = cached {
            self.cached_len.set(self.cached_len.get() - 1);
            // SAFETY: the heap closed the page when it cached it, and has its slot.
            if let Some(written) = unsafe { check::written_in(page) } {
                self.to_tell.note(written);
            }
            self.counts.note(class, HeapEvent::Reuses, 1);
            (page, false)
        } else {
            let (page, zero) = segment::claim(span, &self.home)?;
            if span == 1 {
                self.home.note_small(1);
            }
            self.counts.note(class, HeapEvent::Claims, 1);
            // What is free elsewhere may be beyond the budget now, or the page beyond the soft
            // limit.
            if parked::has_unpurged() || held::is_beyond() || huge::is_beyond_bound() {
                self.set_released(true);
            }
            // A class that has filled pages will fill this one too. One system call is cheaper than
            // 16 page faults.
            let fills_pages = self.counts.recent(class, HeapEvent::Claims) > FILLED;
            let from = policy::POPULATE_FROM_PAGES.get();
            if zero && span == 1 && fills_pages && from != 0 && self.pages.get() >= from {
                self.populate(page);
            } else if zero && self.pages.get() >= TOUCHED {
                self.touch(page);
            }
            (page, zero)
        };
        if self.dice.get() == 0 {
            self.draw();
        }
        // A class that only grows takes no lists, so it makes room here.
        self.counts.make_room(class);
        page.open(class, size, span, zero);
        page.give_to(&self.owner);
        if self.ended.load(Relaxed) != 0 {
            self.pages.set(self.pages.get().saturating_sub(self.ended.swap(0, Relaxed)));
        }
        self.pages.set(self.pages.get().saturating_add(1));
        Some(page)
    }

    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) fn populate(&self, page: &Meta) {
        if page.segment().is_thp() {
            return self.touch(page);
        }
        let populate = || os::populate(page.start().addr(), SLOT);
        if !first_touch::timed(SLOT / os::page_size(), false, populate) {
            self.touch(page);
        }
    }

    /// Touches the first byte of a zero page of this heap, if that is timed.
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn touch(&self, page: &Meta) {
        // SAFETY: `segment::claim` has just given this heap the slots of the page, which is zero
        // and not open yet: nobody else writes to it (`segment` rule 1).
        unsafe { first_touch::touch(page.start(), page.segment().is_thp()) };
    }
}
