//! Freeing: blocks of this heap's pages, blocks for other heaps, and what others send.

use super::Heap;
use super::counts::HeapEvent;
use crate::backend::owner::{Owner, inbox_of};
use crate::backend::page::{Block, Meta, PageState};
use crate::backend::remote_batch::RemoteBatch;
use crate::backend::{check, segment};
use crate::base::sync::{AtomicU64, Ordering::Relaxed};
use crate::heap::parked;
use crate::proto::inbox::Link;
use crate::{policy, profile};
use core::ptr::null_mut;

/// Blocks counted at which the counters are made room in, though no list was taken.
const MUCH: u32 = 1 << 31;

/// Frees by threads without a heap.
pub static STRAY: AtomicU64 = AtomicU64::new(0);

/// Frees of blocks that no heap has counted.
pub fn stray_frees() -> u64 {
    STRAY.load(Relaxed)
}

/// In the child of a fork, which counts anew.
pub fn reset_stray_frees() {
    STRAY.store(0, Relaxed);
}

impl Heap {
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
        let until_slow = page.until_slow.get() - 1;
        page.until_slow.set(until_slow);
        until_slow == 0
    }

    /// [`Heap::push_freed`] for blocks that do not come by the fast path. A medium block is kept at hand if it is the
    /// only one of its class: for these a list from a page is short, and to make a page's only block go and come costs
    /// a countdown and a refill.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    #[must_use]
    pub unsafe fn push_kept(&self, page: &Meta, block: *mut Block) -> bool {
        if page.is_medium() {
            check::check_unit(block, page);
            let list = &self.owner.front.free[usize::from(page.class.get())];
            if list.get().is_null() && (!profile::is_on() || self.may_keep(usize::from(page.class.get()))) {
                // SAFETY: the block is free from now on.
                unsafe { Block::set_next(block, null_mut()) };
                list.set(block);
                // As if it had gone to its page and come back.
                let class = usize::from(page.class.get());
                self.counts.note(class, HeapEvent::Listed, 1);
                // It may come and go so for ever, without a refill.
                if self.counts.recent(class, HeapEvent::Listed) > MUCH {
                    self.counts.make_room(class);
                }
                return false;
            }
            if check::CHECKED && (list.get() == block || page.free.get() == block) {
                check::double_free(block.cast(), page);
            }
        } else {
            check::check_in_slot(block, page);
        }
        // SAFETY: passed on.
        unsafe { Heap::push_freed(page, block) }
    }

    /// Frees a block of a page of this heap, to the end. `busy` is set.
    ///
    /// # Safety
    /// As [`Heap::push_freed`].
    pub(super) unsafe fn free_local(&self, page: &Meta, block: *mut Block) {
        // SAFETY: passed on.
        if unsafe { Heap::push_freed(page, block) } {
            self.unfull_or_empty(page);
        }
    }

    /// Frees a block of another owner's page, by way of a batch.
    ///
    /// # Safety
    /// The block is live, of `page`, and the caller's to free; the calling thread has this heap.
    #[inline(never)]
    pub unsafe fn free_remote(&self, page: &Meta, block: *mut Block) {
        // SAFETY: passed on.
        unsafe { self.outgoing.add(page, block, policy::BATCH_BYTES.get()) };
    }

    /// Frees a block of `owner` from a thread that has no heap.
    ///
    /// # Safety
    /// The block is live, of a page of `owner`, and the caller's to free.
    pub unsafe fn send_one(page: &Meta, owner: *mut Owner, block: *mut Block) {
        check::check_start(block, page);
        STRAY.fetch_add(1, Relaxed);
        // SAFETY: passed on; inboxes are for ever.
        unsafe { RemoteBatch::send_one(page, block, inbox_of(owner)) };
    }

    /// Merges what other threads freed into the pages' own lists (rule 4). O(batches).
    #[inline(never)]
    pub(super) fn merge_remote_frees(&self) {
        let mut batch = self.owner.inbox().take();
        let mut batches = 0;
        while !batch.is_null() {
            // SAFETY: `remote_batch` rule 1: it is this heap's since it was taken, and left alone once opened or passed on.
            let page = unsafe { RemoteBatch::page(batch) };
            let owner = page.owner();
            if owner != self.owner() {
                // The page was parked meanwhile (`page` rule 1).
                if check::CHECKED && owner.is_null() {
                    check::corrupt(RemoteBatch::block(batch).cast());
                }
                // SAFETY: as above.
                unsafe {
                    let next = RemoteBatch::next(batch);
                    inbox_of(owner).push_chain(batch, batch);
                    batch = next;
                }
                continue;
            }
            if RemoteBatch::is_block(batch) {
                check::check_carved(RemoteBatch::block(batch), page);
            }
            // SAFETY: as above.
            let (length, next) = unsafe { RemoteBatch::open(batch, page) };
            // Before the page may go to another owner, by what comes next (`page` rule 1).
            self.counts.note(usize::from(page.class.get()), HeapEvent::Received, length);
            page.until_slow.set(page.until_slow.get() - length as i32);
            if page.until_slow.get() <= 0 {
                self.unfull_or_empty(page);
            }
            batches += 1;
            batch = next;
        }
        self.counts.merges.add(1);
        self.counts.batches.add(batches);
    }

    /// A page of this heap counted down to zero: it is worth waking, almost empty, or empty.
    #[inline(always)]
    pub fn counted_down(&self, page: &Meta) {
        self.busy(|| self.unfull_or_empty(page));
    }

    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn unfull_or_empty(&self, page: &Meta) {
        debug_assert!(page.owner() == self.owner() && page.state.get() != PageState::Parked);
        let class = usize::from(page.class.get());
        // A merged batch may have gone beyond the threshold.
        let out = if page.state.get() == PageState::Full {
            page.state.set(PageState::Queue);
            self.counts.note(class, HeapEvent::Unfulled, 1);
            self.push_second(class, page);
            let out = page.carved.get() as i32 - page.unfull_at.get() + page.until_slow.get();
            let base = parked::most_out(page.cap.get());
            if out > i32::from(base) {
                return page.count_down(out, base);
            }
            out
        } else {
            page.until_slow.get() + i32::from(page.park_at.get())
        };
        page.count_down(out, 0);
        if out > 0 {
            return self.cool(class, page);
        }
        if check::CHECKED && out < 0 {
            check::double_free(page.free.get().cast(), page);
        }
        self.withdraw(page);
        if self.queue[class].get() == page.raw() && page.next.get().is_null() {
            // The class's only page: giving it up would only mean claiming it again.
            page.state.set(PageState::Retired);
            page.clear_owner();
            return;
        }
        self.unlink(class, page);
        self.give_up(class, page, policy::CACHED_PAGES.of(class));
    }

    /// Ends an empty page that is in no queue; it is cached if there are fewer than `keep`.
    pub(super) fn give_up(&self, class: usize, page: &'_ Meta, keep: u32) {
        let blocks = page.carved.get();
        if self.is_to_walk(self.counts.recent(class, HeapEvent::Empties)) {
            self.now_and_then(class, page.free.get(), page.listed(), page);
        }
        self.counts.existing[class].add(-i64::from(blocks));
        self.counts.note(class, HeapEvent::Empties, 1);
        self.note_carved(page, -(i64::from(blocks) * i64::from(page.block_size.get())));
        self.pages.set(self.pages.get() - 1);
        let span = page.span.load(Relaxed);
        page.close();
        if span == 1 && self.cached_len.get() < keep {
            page.state.set(PageState::Cached);
            page.next.set(self.cached.get());
            self.cached.set(page.raw());
            self.cached_len.set(self.cached_len.get() + 1);
            return;
        }
        if span == 1 {
            segment::note_small(-1);
        }
        // SAFETY: the page is closed and empty.
        unsafe { segment::release(page, span) };
        self.released.set(true);
    }
}
