//! The states of a page of a heap: what becomes of it when its countdown is over, and how it ends.

use crate::backend::check;
use crate::backend::page::{Meta, PageState};
use crate::base::size_class::CLASSES;
use crate::base::sync::Ordering::Relaxed;
use crate::heap::Heap;
use crate::heap::counts::HeapEvent;
use crate::heap::reclaim::parked;
use crate::policy;
use core::hint::assert_unchecked;

impl Heap {
    /// Handles the end of the countdown of a page of this heap: the page becomes unfull, a
    /// candidate, or empty. In the child of a fork by a signal handler in the middle of a free, it
    /// may be another heap's: then this does nothing.
    #[inline(always)]
    pub fn counted_down(&self, page: &Meta) {
        self.busy(|| {
            // Inside, no purge has the page for a moment (`reclaim::sleeping` rule 3).
            if page.owner() == self.owner() {
                self.unfull_or_empty(page);
            }
            // A program whose blocks come and go on one page seldom refills. What waits would
            // become much, and one call would merge all of it.
            self.receive_remote_frees();
        });
    }

    /// Moves a page of this heap to its next state, after its countdown has ended: a full page goes
    /// back into the queue, a page with few used blocks becomes a candidate, and an empty page is
    /// retired, cached or released. `busy` is set.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) fn unfull_or_empty(&self, page: &Meta) {
        debug_assert!(page.owner() == self.owner() && page.state.get() != PageState::Parked);
        let class = usize::from(page.class.get());
        // SAFETY: the class of a page comes from `size_class`, so it is below CLASSES.
        unsafe { assert_unchecked(class < CLASSES) };
        // A merged batch may have freed more blocks than the countdown had left.
        let used = if page.state.get() == PageState::Full {
            page.state.set(PageState::Queue);
            self.counts.note(class, HeapEvent::Unfulled, 1);
            self.queue[class].push_second(page);
            let used = page.carved.get() as i32 - page.unfull_at.get() + page.list.until_slow.get();
            let base = parked::most_out(page.cap.get());
            if used > i32::from(base) {
                return page.count_down(used, base);
            }
            used
        } else {
            page.list.until_slow.get() + i32::from(page.park_at.get())
        };
        page.count_down(used, 0);
        if used > 0 {
            return self.make_candidate(class, page);
        }
        if check::CHECKED && used < 0 {
            check::double_free(page.list.free.get().cast(), page);
        }
        self.withdraw(page);
        if self.queue[class].is_only(page) {
            // This is the only page of its class. If the heap gave it up, the next allocation would
            // claim it again.
            page.state.set(PageState::Retired);
            page.clear_owner();
            return;
        }
        self.give_up(class, page);
    }

    /// Takes an empty page out of the queue, checks its list now and then, and ends the page.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn give_up(&self, class: usize, page: &'_ Meta) {
        self.queue[class].remove(page);
        if self.is_to_walk(self.counts.recent(class, HeapEvent::Empties)) {
            // SAFETY: the heap owns the page, whose list has so many blocks.
            unsafe { self.now_and_then(class, page.list.free.get(), page.listed(), page) };
        }
        if self.end_page(class, page, policy::CACHED_PAGES.of(class)) {
            self.set_released(true);
        }
    }

    /// Ends an empty page that is in no queue. The heap caches it if it has fewer than `keep`
    /// cached pages. True: the page went back to its segment.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) fn end_page(&self, class: usize, page: &'_ Meta, keep: u32) -> bool {
        let blocks = page.carved.get();
        self.counts.existing[class].add(-i64::from(blocks));
        self.counts.note(class, HeapEvent::Empties, 1);
        self.note_carved(page, -(i64::from(blocks) * i64::from(page.block_size.get())));
        self.pages.set(self.pages.get() - 1);
        // SAFETY: the page is empty, in no queue, and the heap owns it.
        unsafe { self.put_away(page, keep) }
    }

    /// Ends a full page of another heap, all blocks of which are in one batch of this heap. If the
    /// heap caches it, the next page that the heap needs is this one. The holder calls this, inside
    /// or outside.
    ///
    /// # Safety
    /// The page is full, the calling thread has all its blocks, and no list has the page (`whole`
    /// rule 1).
    #[cold]
    #[inline(never)]
    pub(in crate::heap) unsafe fn end_whole(&self, page: &'_ Meta) {
        let end = || {
            let class = usize::from(page.class.get());
            self.note_carved(page, -parked::note_whole_end(page));
            // SAFETY: the page is full and in no list, and this heap has all its blocks. So nobody
            // else comes to it, and it is this heap's.
            if unsafe { self.put_away(page, policy::CACHED_PAGES.of(class)) } {
                self.set_released(true);
            }
        };
        if self.is_busy() { end() } else { self.busy(end) }
    }

    /// Closes an empty page. The heap caches it if it has fewer than `keep` cached pages. True: the
    /// page went back to its segment.
    ///
    /// # Safety
    /// The page is in no queue, no block of it is used, and its slots belong to this heap.
    #[inline(always)]
    unsafe fn put_away(&self, page: &'_ Meta, keep: u32) -> bool {
        let span = page.span.load(Relaxed);
        page.close();
        if span == 1 && self.cached_len.get() < keep {
            page.state.set(PageState::Cached);
            self.cached.push(page);
            self.cached_len.set(self.cached_len.get() + 1);
            return false;
        }
        if span == 1 {
            self.home.note_small(-1);
        }
        // SAFETY: `close` ended the page, which has no used blocks. The heap owned its slots, and
        // no list of the heap has the page.
        unsafe { self.home.release(page, span) };
        true
    }
}
