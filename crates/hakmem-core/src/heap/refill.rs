//! Allocation when the class's list is empty: it is filled again.

use super::counts::HeapEvent;
use super::{Fresh, Heap, WALK_EVERY};
use crate::backend::arena::SLOT;
use crate::backend::page::{Block, Meta, PageState};
use crate::backend::{check, segment};
use crate::base::size_class::{CLASSES, SIZES, span_of};
use crate::heap::{holes, parked};
use crate::proto::inbox::Link;
use crate::{os, policy, profile};
use core::hint::assert_unchecked;
use core::ptr::{NonNull, null_mut};

/// Pages of a class that a heap has claimed before fresh ones are faulted in whole.
const FILLED: u32 = 4;

/// Bytes of fresh blocks put on a list at a time at most.
const CARVE_MOST: u32 = 16 << 10;

impl Heap {
    /// A block of `class` by the slow path; the class's list is empty, and is refilled. None: out of memory. Amortised O(1): each page
    /// found full on the way takes a share of its blocks freed to come back.
    #[cold]
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn refill(&self, class: usize) -> Option<Fresh> {
        if profile::is_on() {
            return self.refill_sampled(class);
        }
        self.refill_unsampled(class)
    }

    /// [`Heap::refill`] of which no block is a sample: from the current page, or from another one.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn refill_unsampled(&self, class: usize) -> Option<Fresh> {
        debug_assert!(class < CLASSES);
        // SAFETY: classes come from `size_class` or a page, and are below CLASSES.
        unsafe { assert_unchecked(class < CLASSES) };
        self.busy(|| {
            self.receive_remote_frees();
            match self.queue[class].first() {
                Some(page) if !page.free.get().is_null() => Some((self.take(class, page), false)),
                _ => self.refill_from_another_page(class),
            }
        })
    }

    /// There is nothing on the current page's list. What comes next, in this order: untouched memory and holes of the
    /// current page, the further pages of the queue, a shared page, a parked page, a cached or a fresh page.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn refill_from_another_page(&self, class: usize) -> Option<Fresh> {
        if let Some(fresh) = self.refill_from_queue(class) {
            return Some(fresh);
        }
        if self.shares(class)
            && let Some(fresh) = self.share(class)
        {
            return Some(fresh);
        }
        self.send_remote_frees();
        while let Some(page) = parked::unpark(class, self.owner()) {
            self.pages.set(self.pages.get() + 1);
            self.counts.unparked.add(1);
            self.queue[class].push(page);
            if let Some(fresh) = self.refill_from_queue(class) {
                return Some(fresh);
            }
        }
        let page = self.new_page(class)?;
        self.queue[class].push(page);
        Some((self.carve(class, page), page.zero.get()))
    }

    /// Blocks of the first page of the queue that has any. Pages that have none are full, and leave the queue.
    #[inline(always)]
    fn refill_from_queue(&self, class: usize) -> Option<Fresh> {
        let mut moved_on = 0;
        while let Some(page) = self.queue[class].first() {
            if !page.free.get().is_null() {
                self.counts.next_pages.add(moved_on);
                return Some((self.take(class, page), false));
            }
            if page.carved.get() < page.cap.get() {
                self.counts.next_pages.add(moved_on);
                return Some((self.carve(class, page), page.zero.get()));
            }
            if let Some(block) = self.fill_hole(class, page) {
                return Some((block, false));
            }
            self.mark_full(class, page);
            moved_on = 1;
        }
        None
    }

    /// Merges what others freed (rule 4).
    #[inline(always)]
    pub(super) fn receive_remote_frees(&self) {
        if !self.owner.inbox().is_empty() {
            self.merge_remote_frees();
        }
    }

    /// Sends what was freed for others. Before the heap takes more memory, not on each refill: that made batches of a
    /// dozen blocks.
    pub(super) fn send_remote_frees(&self) {
        if self.outgoing.is_pending() {
            self.outgoing.send_all();
        }
    }

    /// Takes a page's whole list: its first block is returned, the rest becomes the heap's.
    #[inline(always)]
    pub(super) fn take(&self, class: usize, page: &Meta) -> NonNull<Block> {
        debug_assert!(page.state.get() == PageState::Retired || page.owner() == self.owner());
        if page.state.get() == PageState::Candidate {
            return self.take_candidate(class, page);
        }
        let list = page.free.replace(null_mut());
        let length = page.listed();
        page.count_down(page.carved.get() as i32 - i32::from(page.in_holes.get()), 0);
        if page.state.get() != PageState::Queue {
            // It was retired.
            page.state.set(PageState::Queue);
            page.set_owner(self.owner());
        }
        self.counts.note(class, HeapEvent::Listed, length as u32);
        let takes = self.counts.note(class, HeapEvent::Takes, 1);
        // SAFETY: the caller saw that the page's list is not empty. Its blocks are free, and on this list alone (`page` rule 4).
        unsafe {
            check::peek(list, page);
            self.owner.front.free[class].set((*list).next.get());
            if self.is_to_walk(takes) {
                return NonNull::new_unchecked(self.now_and_then(class, list, length, page));
            }
            NonNull::new_unchecked(list)
        }
    }

    /// [`Heap::take`] of a page that few blocks were out of.
    #[cold]
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn take_candidate(&self, class: usize, page: &Meta) -> NonNull<Block> {
        self.withdraw(page);
        self.take(class, page)
    }

    /// True for one list in `WALK_EVERY`, of those that `count` counts. By chance, so that no program does the same wrong again and
    /// again where it is not seen.
    #[inline(always)]
    pub(super) fn is_to_walk(&self, count: u32) -> bool {
        count % (2 * WALK_EVERY) == self.walked.get()
    }

    /// What is done then with the list, of `length` blocks of `page`. Returns it.
    #[cold]
    #[inline(never)]
    pub(super) fn now_and_then(&self, class: usize, list: *mut Block, length: i32, page: &Meta) -> *mut Block {
        self.counts.make_room(class);
        // While others are drawn a class may go without, but not for ever: each has its turn, too.
        let turn = usize::from(self.turn.get());
        self.counts.make_room(turn);
        self.turn.set(if turn + 1 < CLASSES { turn as u8 + 1 } else { 0 });
        self.draw();
        if !self.inherited.get() {
            check::walk(list, length, page);
        }
        list
    }

    /// Draws which list is walked next: on average the one after `WALK_EVERY`.
    #[cold]
    pub(super) fn draw(&self) {
        let mut dice = self.dice.get();
        if dice == 0 {
            // Another number in each heap and, as the kernel chooses where arenas lie, in each run.
            let address = core::ptr::from_ref(self).addr() as u64;
            dice = ((address >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1;
        }
        // xorshift, which never comes to 0.
        dice ^= dice << 13;
        dice ^= dice >> 17;
        dice ^= dice << 5;
        self.dice.set(dice);
        self.walked.set((dice >> 8) % (2 * WALK_EVERY));
    }

    /// Blocks of the page's first hole: the first is returned, the rest becomes the heap's list.
    pub(super) fn fill_hole(&self, class: usize, page: &Meta) -> Option<NonNull<Block>> {
        let (first, count) = holes::fill(page)?;
        page.until_slow.set(page.until_slow.get() + count as i32);
        // They came back before the hole was purged, which was not counted yet.
        self.counts.note(class, HeapEvent::Listed, count);
        self.counts.note(class, HeapEvent::Takes, 1);
        self.counts.holes_filled.add(1);
        // SAFETY: they were in a hole (`holes` rule 2), and are on this list alone; there is at least one.
        unsafe {
            self.owner.front.free[class].set(Block::next(first));
            NonNull::new(first)
        }
    }

    /// Links fresh blocks, in the order of their addresses: the first is returned, the rest becomes the heap's list.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn carve(&self, class: usize, page: &Meta) -> NonNull<Block> {
        let size = page.block_size.get() as usize;
        let left = page.cap.get() - page.carved.get();
        // As much again as there is, within bounds: large steps cost few calls, and touch little that is not used.
        let least = policy::CARVE_BYTES.of(class);
        let bytes = (page.carved.get() * size as u32).clamp(least, CARVE_MOST.max(least));
        let count = (bytes / size as u32).clamp(1, left);
        let first = page.start().wrapping_add(page.carved.get() as usize * size);
        let mut list = null_mut();
        for i in (1..count as usize).rev() {
            let block = first.wrapping_add(i * size).cast::<Block>();
            // SAFETY: inside the page, beyond what was carved: nobody's.
            unsafe { Block::set_next(block, list) };
            list = block;
        }
        page.carved.set(page.carved.get() + count);
        page.until_slow.set(page.until_slow.get() + count as i32);
        self.owner.front.free[class].set(list);
        self.counts.note(class, HeapEvent::Listed, count);
        self.counts.existing[class].add(i64::from(count));
        self.counts.note(class, HeapEvent::Carves, 1);
        self.note_carved(page, i64::from(count) * size as i64);
        // SAFETY: inside the arena, so not null.
        unsafe { NonNull::new_unchecked(first.cast()) }
    }

    /// Takes the first page of the queue out: all its blocks are out.
    pub(super) fn mark_full(&self, class: usize, page: &Meta) {
        debug_assert!(page.in_holes.get() == 0 && page.listed() == 0);
        self.queue[class].remove(page);
        let threshold = (page.cap.get() / policy::UNFULL_FRACTION.of(class).max(1)).max(1) as i32;
        page.unfull_at.set(threshold);
        page.until_slow.set(threshold);
        page.state.set(PageState::Full);
        self.counts.note(class, HeapEvent::Filled, 1);
    }

    /// An empty page for `class`: cached, or claimed from a segment.
    pub(super) fn new_page(&self, class: usize) -> Option<&'static Meta> {
        let size = SIZES[class];
        let span = span_of(size);
        let cached = if span == 1 { self.cached.pop() } else { None };
        let (page, zero) = if let Some(page) = cached {
            self.cached_len.set(self.cached_len.get() - 1);
            self.counts.note(class, HeapEvent::Reuses, 1);
            (page, false)
        } else {
            let (page, zero) = segment::claim(span)?;
            if span == 1 {
                segment::note_small(1);
            }
            self.counts.note(class, HeapEvent::Claims, 1);
            // A class that has filled pages will fill this one too: one call is cheaper than 16 faults.
            let fills_pages = self.counts.recent(class, HeapEvent::Claims) > FILLED;
            let from = policy::POPULATE_FROM_PAGES.get();
            if zero && span == 1 && fills_pages && from != 0 && self.pages.get() >= from {
                self.populate(page);
            }
            (page, zero)
        };
        if self.dice.get() == 0 {
            self.draw();
        }
        // A class that only grows takes no lists.
        self.counts.make_room(class);
        page.open(self.owner(), class, size, span, zero);
        self.pages.set(self.pages.get() + 1);
        Some(page)
    }

    pub(super) fn populate(&self, page: &Meta) {
        if !page.segment().is_thp() {
            os::populate(page.start().addr(), SLOT);
        }
    }
}
