//! Frees: of blocks of the heap's own pages, merges of remote frees, and frees of threads without a
//! heap.

pub(in crate::heap) mod remote;
pub(in crate::heap) mod scattered;

use crate::backend::check;
use crate::backend::owner::{Owner, inbox_of};
use crate::backend::page::{Block, FIRST_LISTED, Meta, PageState};
use crate::backend::remote_batch::RemoteBatch;
use crate::base::address::formed;
use crate::base::renew::Renew;
use crate::base::size_class::{CLASSES, FIRST_LONG, FIRST_MEDIUM, SIZES};
use crate::base::sync::{AtomicU64, Ordering::Relaxed};
use crate::heap::Heap;
use crate::heap::counts::HeapEvent;
use crate::heap::reclaim::parked;
use crate::proto::inbox::Link;
use crate::proto::take_away;
use crate::{guard, harden, policy, profile};
use core::hint::assert_unchecked;

/// A heap that counts so many blocks of a class makes room in the counters, although it took no
/// list.
pub(in crate::heap) const MUCH: u32 = 1 << 31;

/// For each class above `SMALL_MAX` how many freed blocks the heap's list keeps at most: 256 KiB of
/// medium blocks, 64 KiB of smaller ones.
static MOST_KEPT: [u8; CLASSES - FIRST_LONG] = {
    let mut kept = [0; CLASSES - FIRST_LONG];
    let mut class = FIRST_LONG;
    while class < CLASSES {
        let bytes = if class < FIRST_MEDIUM { 64 << 10 } else { 256 << 10 };
        kept[class - FIRST_LONG] = (bytes / SIZES[class]) as u8;
        class += 1;
    }
    kept
};

/// How many it keeps at first: a sixteenth, and one at least. A program that frees and allocates in
/// turn makes the list longer (`Heap::lengthen_list`). One that only frees does not: what lies on
/// the list of a thread that then sleeps is not given back.
static FIRST_KEPT: [u8; CLASSES - FIRST_LONG] = {
    let mut kept = MOST_KEPT;
    let mut i = 0;
    while i < kept.len() {
        kept[i] = if kept[i] < 32 { 1 } else { kept[i] / 16 };
        i += 1;
    }
    kept
};

/// Frees by threads without a heap.
pub static HEAPLESS: AtomicU64 = AtomicU64::new(0);

/// Frees of blocks by threads without a heap, which no heap counts.
pub fn heapless_frees() -> u64 {
    HEAPLESS.load(Relaxed)
}

/// Resets this count, in the child of a fork.
pub fn reset_heapless_frees() {
    HEAPLESS.renew(0);
}

/// What became of a block that [`Heap::push_listed`] was to free.
pub enum Pushed {
    Done,
    /// It is free, and the caller must call [`Heap::counted_down`].
    CountdownOver,
    /// It was free already, or is no block.
    Wrong,
}

impl Heap {
    /// Frees a block of a page of the calling thread's heap. True: the countdown of the page is
    /// over, and the caller must call `counted_down`.
    ///
    /// # Safety
    /// The calling thread holds the heap that owns the page. The block is of this page, on no list,
    /// and the caller's to free.
    #[inline(always)]
    #[must_use]
    pub unsafe fn push_freed(page: &Meta, block: *mut Block) -> bool {
        let push = || {
            // SAFETY: the caller gives the block up, so its first word may hold a link from now on.
            unsafe { Block::set_next(block, page.free.get()) };
            page.free.set(block);
        };
        take_away::free(push, || page.count_freed())
    }

    /// Frees a block of a page whose class has `FIRST_LISTED` or more: onto the heap's list, while
    /// that has few blocks. So the next allocation gets the block that was freed last. It lies in
    /// the cache, and a page of few blocks is not refilled from each time. `SAMPLED`: allocations
    /// may be sampled.
    ///
    /// # Safety
    /// The calling thread holds this heap, which owns the page. The block is of this page, and the
    /// caller's to free if [`Pushed::Wrong`] is not the answer.
    #[inline(always)]
    #[must_use]
    pub unsafe fn push_listed<const SAMPLED: bool>(
        &self,
        page: &Meta,
        block: *mut Block,
    ) -> Pushed {
        let class = usize::from(page.class.get());
        // SAFETY: the caller's page has such a class, and all classes are below CLASSES.
        unsafe { assert_unchecked((FIRST_LISTED..CLASSES).contains(&class)) };
        let list = formed(&self.owner.front.free[class]);
        let first = list.get();
        let is_free = check::CHECKED && (first == block || page.free.get() == block);
        if !check::may_start(block, class as u8) || is_free {
            return Pushed::Wrong;
        }
        let kept = &self.owner.front.kept[class - FIRST_LONG];
        let count = kept.get();
        if count >= self.most_kept[class - FIRST_LONG].get()
            // Links of the hardened build lead to the same segment.
            || harden::ON && !first.is_null()
            || SAMPLED && !self.may_keep(class)
        {
            self.overflowed.set(self.overflowed.get() | 1 << (class - FIRST_LONG));
            // SAFETY: the caller promises that the thread holds this heap, which owns the page, and
            // gives up a live block of it.
            let is_over = unsafe { Heap::push_freed(page, block) };
            return if is_over { Pushed::CountdownOver } else { Pushed::Done };
        }
        kept.set(count + 1);
        // SAFETY: the caller gives up a live block, so its first word may hold a link from now on.
        let link = || unsafe { Block::set_next(block, first) };
        take_away::keep(link, |order| list.set_by(block, order));
        // The counters show a block that went to its page and onto the list again. A program may
        // allocate and free this block for ever without a refill.
        if self.counts.note(class, HeapEvent::Listed, 1) > MUCH {
            self.counts.make_room(class);
        }
        Pushed::Done
    }

    /// Frees a block of a page that another owner has, as [`Heap::push_listed`] does. The thread
    /// allocates it again, and no two threads write to one cache line for it: each of these blocks
    /// has lines of its own. False: the caller still has the block.
    ///
    /// A list of the first length takes none: perhaps the thread only frees, and then sleeps. Such
    /// a block would keep a page from going back of which its owner, asleep too, has all else.
    ///
    /// While a purge takes a page of this heap away, the page counts as parked. No block of it may
    /// come onto the list then (`take_away` rule 5). So this is a slow path for a block of a parked
    /// page, which the purge keeps the holder out of.
    ///
    /// # Safety
    /// The calling thread holds this heap. The block is live, of `page`, whose class has
    /// `FIRST_LISTED` or more and whose owner was `owner`, and the caller's to free.
    #[inline(never)]
    #[must_use]
    pub unsafe fn keep_remote(&self, page: &Meta, owner: *mut Owner, block: *mut Block) -> bool {
        // In the hardened build, links lead to the same segment. Samples cut lists.
        if harden::ON || profile::is_on() || guard::is_at_work() || self.home.is_far(page) {
            return false;
        }
        let class = usize::from(page.class.get());
        // SAFETY: the caller's page has such a class, and all classes are below CLASSES.
        unsafe { assert_unchecked((FIRST_LISTED..CLASSES).contains(&class)) };
        if !check::may_start(block, class as u8) {
            return false; // The batch says what is wrong.
        }
        if check::CHECKED && self.owner.front.free[class].get() == block {
            check::double_free(block.cast(), page);
        }
        let i = class - FIRST_LONG;
        let (kept, most) = (&self.owner.front.kept[i], self.most_kept[i].get());
        let count = kept.get();
        if count >= most || most == FIRST_KEPT[i] {
            self.overflowed.set(self.overflowed.get() | 1 << i);
            return false;
        }
        // SAFETY: the caller gives up a live block of a page that `owner` had.
        let is_kept = unsafe { self.list_of_other(class, owner, block) };
        if is_kept {
            kept.set(count + 1);
        }
        is_kept
    }

    /// Puts a block of a page that another owner has onto the heap's list of `class`. False: the
    /// page is parked, and a purge pauses the heap. The caller still has the block then.
    ///
    /// # Safety
    /// The calling thread holds this heap. The block is live, of a page of `class`, whose owner was
    /// `owner`, and the caller's to free if this returns true.
    #[inline(always)]
    unsafe fn list_of_other(&self, class: usize, owner: *mut Owner, block: *mut Block) -> bool {
        let is_parked = parked::is_owner(owner);
        if is_parked && !self.pause.try_enter() {
            self.pause.leave();
            return false;
        }
        let list = formed(&self.owner.front.free[class]);
        let first = list.get();
        // SAFETY: the caller gives up a live block, so its first word may hold a link from now on.
        let link = || unsafe { Block::set_next(block, first) };
        take_away::keep(link, |order| list.set_by(block, order));
        // The counters show a block that went to its page and onto the list again.
        if self.counts.note(class, HeapEvent::Listed, 1) > MUCH {
            self.counts.make_room(class);
        }
        if is_parked {
            self.pause.leave();
        }
        true
    }

    /// The list of `class` is empty. If frees found it full before, it was too short for both: from
    /// now on it keeps twice as many blocks, up to `MOST_KEPT`.
    #[inline(always)]
    pub(in crate::heap) fn lengthen_list(&self, class: usize) {
        let i = class - FIRST_LONG;
        self.owner.front.kept[i].set(0);
        let overflowed = self.overflowed.get();
        if overflowed & 1 << i != 0 {
            self.overflowed.set(overflowed & !(1 << i));
            self.most_kept[i].set((2 * self.most_kept[i].get()).min(MOST_KEPT[i]));
        }
    }

    /// Lets each list keep as many blocks as at first. For a new heap.
    pub(in crate::heap) fn shorten_lists(&self) {
        self.most_kept.iter().zip(FIRST_KEPT).for_each(|(most, first)| most.set(first));
    }

    /// A block was taken from the heap's list of `class`.
    #[inline(always)]
    pub fn note_taken(&self, class: usize) {
        if let Some(kept) = self.owner.front.kept.get(class.wrapping_sub(FIRST_LONG)) {
            kept.set(kept.get().saturating_sub(1));
        }
    }

    /// Frees a block of a page of this heap, and handles the end of the countdown. `busy` is set.
    ///
    /// # Safety
    /// The calling thread holds this heap, which owns the page. The block is of this page, on no
    /// list, and the caller's to free.
    pub(in crate::heap) unsafe fn free_local(&self, page: &Meta, block: *mut Block) {
        // SAFETY: the caller promises that the thread holds this heap, which owns the page, and
        // gives up a block of it.
        if unsafe { Heap::push_freed(page, block) } {
            self.unfull_or_empty(page);
        }
    }

    /// Sends a block to `owner`, for a thread that has no heap.
    ///
    /// # Safety
    /// The block is live, of `page`, and the caller's to free. `owner` was read from `page`.
    pub unsafe fn send_one(page: &Meta, owner: *mut Owner, block: *mut Block) {
        check::check_start(block, page);
        HEAPLESS.fetch_add(1, Relaxed);
        // SAFETY: the caller gives up a live block of `page`. `owner` was read from a page, and an
        // owner stays for ever (`owner` rule 1).
        unsafe { RemoteBatch::send_one(page, block, inbox_of(owner)) };
    }

    /// Moves remote frees from the inbox to the lists of their pages (`heap` rule 4). O(batches).
    #[inline(never)]
    pub(in crate::heap) fn merge_remote_frees(&self) {
        // SAFETY: `take` gives the batches of this heap's inbox to this thread.
        unsafe { self.receive(self.owner.inbox().take()) };
        self.counts.merges.add(1);
    }

    /// Moves a chain of remote batches to the lists of their pages.
    ///
    /// # Safety
    /// The chain that begins with `batch` comes from this heap's inbox, and belongs to the caller.
    #[inline(always)]
    pub(in crate::heap) unsafe fn receive(&self, batch: *mut RemoteBatch) {
        // SAFETY: the calling thread holds this heap, as it has a `Heap` (`heap` rule 1). The
        // caller gives up the chain.
        let batches = unsafe {
            self.owner.merge(batch, |page, length, _| {
                // This must come before `unfull_or_empty`: that may give the page to another owner,
                // and then this heap must not read the class.
                self.counts.note(usize::from(page.class.get()), HeapEvent::Received, length);
                if page.until_slow.get() <= 0 {
                    self.unfull_or_empty(page);
                }
            })
        };
        self.counts.batches.add(batches);
    }

    /// Handles the end of the countdown of a page of this heap: the page becomes unfull, a
    /// candidate, or empty.
    #[inline(always)]
    pub fn counted_down(&self, page: &Meta) {
        self.busy(|| self.unfull_or_empty(page));
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
            let used = page.carved.get() as i32 - page.unfull_at.get() + page.until_slow.get();
            let base = parked::most_out(page.cap.get());
            if used > i32::from(base) {
                return page.count_down(used, base);
            }
            used
        } else {
            page.until_slow.get() + i32::from(page.park_at.get())
        };
        page.count_down(used, 0);
        if used > 0 {
            return self.make_candidate(class, page);
        }
        if check::CHECKED && used < 0 {
            check::double_free(page.free.get().cast(), page);
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
            self.now_and_then(class, page.free.get(), page.listed(), page);
        }
        if self.end_page(class, page, policy::CACHED_PAGES.of(class)) {
            self.released().set(true);
        }
    }

    /// Ends an empty page that is in no queue. The heap caches it if it has fewer than `keep`
    /// cached pages. True: the page went back to its segment.
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
                self.released().set(true);
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
