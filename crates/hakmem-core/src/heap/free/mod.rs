//! Frees: of blocks of the heap's own pages, merges of remote frees, and frees of threads without a
//! heap.

pub(in crate::heap) mod remote;
pub(in crate::heap) mod scattered;

use crate::backend::check;
use crate::backend::list::List;
use crate::backend::owner::{Owner, inbox_of};
use crate::backend::page::{self, Block, FIRST_LISTED, Meta, PageState};
use crate::backend::remote_batch::RemoteBatch;
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
use core::ptr::{NonNull, null_mut};

/// A heap that counts so many blocks of a class makes room in the counters, although it took no
/// list.
pub(in crate::heap) const MUCH: u32 = 1 << 31;

/// For each class above `SMALL_MAX` how many freed blocks the heap's list keeps at most: 256 KiB of
/// medium blocks, 128 KiB of smaller ones.
static MOST_KEPT: [u8; CLASSES - FIRST_LONG] = kept(128 << 10, 256 << 10);

/// How many it keeps at first: 4 KiB, and one at least. A program that frees and allocates in turn
/// makes the list longer (`Heap::lengthen_list`). One that only frees does not: what lies on the
/// list of a thread that then sleeps is not given back.
static FIRST_KEPT: [u8; CLASSES - FIRST_LONG] = kept(4 << 10, 4 << 10);

/// How many blocks of each class above `SMALL_MAX` are in so many bytes, and one at least.
const fn kept(smaller: u32, medium: u32) -> [u8; CLASSES - FIRST_LONG] {
    let mut kept = [0; CLASSES - FIRST_LONG];
    let mut i = 0;
    while i < kept.len() {
        let class = FIRST_LONG + i;
        let count = if class < FIRST_MEDIUM { smaller } else { medium } / SIZES[class];
        assert!(count <= u8::MAX as u32);
        kept[i] = if count == 0 { 1 } else { count as u8 };
        i += 1;
    }
    kept
}

/// Blocks of one page that a heap's list has no room for. They are linked.
pub struct Beyond {
    pub first: *mut Block,
    pub last: *mut Block,
    /// How many they are, one at least.
    pub count: i32,
    pub page: &'static Meta,
    /// The owner of the page, read after the pop (`take_away` rule 1).
    pub owner: *mut Owner,
}

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

impl Heap {
    /// Frees a block of a page of the calling thread's heap onto the list of the page. True: the
    /// countdown of the page is over, and the caller must call `counted_down`.
    ///
    /// # Safety
    /// The calling thread holds the heap that owns the page. The block is of this page, on no list,
    /// and the caller's to free.
    #[inline(always)]
    #[must_use]
    pub unsafe fn push_freed(page: &Meta, block: *mut Block) -> bool {
        // SAFETY: the list is the caller's, who owns the page, and so is the block.
        unsafe { page.list.push(block, page.list.free.get()) }
    }

    /// [`Heap::push_freed`] for a chain of blocks.
    ///
    /// # Safety
    /// As [`Heap::push_freed`], for each block of the chain, whose page has this thread's heap.
    #[inline(always)]
    #[must_use]
    pub unsafe fn push_chain(chain: &Beyond) -> bool {
        // SAFETY: the list is the caller's, who owns the page, and so are the blocks.
        unsafe { chain.page.list.push_chain(chain.first, chain.last, chain.count) }
    }

    /// The class of a list, if it is one of this heap.
    #[inline]
    pub fn class_of_list(&self, list: *const List) -> Option<usize> {
        let lists = self.owner.front.lists.as_ptr_range();
        lists.contains(&list).then(|| (list.addr() - lists.start.addr()) / size_of::<List>())
    }

    /// Takes blocks that are too many off the heap's list of `class`: the first one, and those
    /// right behind it that are of the same page. None: the countdown has `room` or more to go.
    ///
    /// The free that brought the countdown to zero calls this until it returns none. Signal
    /// handlers may have freed and allocated since. So the block of that free need not be among
    /// these.
    pub fn take_beyond(&self, class: usize, room: i32) -> Option<Beyond> {
        let list = &self.owner.front.lists[class];
        let missing = room - list.until_slow.get();
        if missing <= 0 {
            return None;
        }
        self.overflowed.set(self.overflowed.get() | 1 << (class - FIRST_LONG));
        let first = list.free.get();
        if first.is_null() {
            list.until_slow.set(list.most.get());
            return None;
        }
        let Some(slot) = page::lookup(first.cast()) else { check::corrupt(first.cast()) };
        let page = slot.head_of_block();
        let (start, bytes) = (page.start_from(first.addr(), slot), page.bytes());
        // For the check alone: whose the page is counts below. A purge may take it meanwhile.
        let is_own = page.owner() == self.owner();
        let freed_first = if is_own { page.list.free.glance() } else { null_mut() };
        let (mut next, mut count) = (first, 0);
        let last = loop {
            // On the page's list too, or on this list twice.
            if check::CHECKED && (next == freed_first || (next == first && count != 0)) {
                check::double_free(next.cast(), page);
            }
            let block = next;
            count += 1;
            // SAFETY: the block is on the heap's list of the class.
            next = unsafe { Self::checked_next(class, block) };
            if count >= missing || next.addr().wrapping_sub(start) >= bytes {
                break block;
            }
        };
        list.until_slow.set(list.until_slow.get() + count);
        let owner = take_away::pass_on(|| list.free.set(next), || page.owner());
        Some(Beyond { first, last, count, page, owner })
    }

    /// The block behind `block` on the heap's list of `class`. Ends the process if no block starts
    /// at `block`, or if that link leads to no place of a block. Frees put blocks above `SMALL_MAX`
    /// there, and do not check them.
    ///
    /// # Safety
    /// `block` is on the heap's list of `class`, and the calling thread holds the heap.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) unsafe fn checked_next(class: usize, block: *mut Block) -> *mut Block {
        if class >= FIRST_LISTED && !check::may_start(block, class as u8) {
            match page::lookup(block.cast()) {
                // The hardened build's frees check their pointers: it must be a link.
                Some(slot) if !harden::ON => check::freed_before(block.cast(), slot),
                _ => check::corrupt(block.cast()),
            }
        }
        // SAFETY: the block is on the heap's list, so its first word is a link.
        let next = unsafe { Block::next(block) };
        check::check_link(block, next);
        next
    }

    /// Takes the first block off the heap's list of `class`, and checks what the fast path does not
    /// check itself. None: the list is empty.
    pub fn take_listed(&self, class: usize) -> Option<NonNull<Block>> {
        let list = &self.owner.front.lists[class].free;
        let block = NonNull::new(list.get())?;
        // SAFETY: the block is on the heap's list of the class.
        let next = unsafe { Self::checked_next(class, block.as_ptr()) };
        take_away::pop(|| list.set(next));
        self.note_taken(class);
        Some(block)
    }

    /// In the hardened build, puts a block of a page of this heap onto the heap's list, if that is
    /// empty: links lead to the same segment there. So the next allocation gets the block that was
    /// freed last. False: the caller still has the block.
    ///
    /// # Safety
    /// The calling thread holds this heap, which owns the page. The block is live, of `page`, whose
    /// class has `FIRST_LISTED` or more, and the caller's to free.
    pub unsafe fn keep_alone(&self, page: &Meta, block: *mut Block) -> bool {
        let class = usize::from(page.class.get());
        let list = &self.owner.front.lists[class];
        if check::CHECKED && (page.list.free.get() == block || list.free.get() == block) {
            check::double_free(block.cast(), page);
        }
        if !list.free.get().is_null() || list.until_slow.get() <= 1 {
            return false;
        }
        // SAFETY: the caller gives up a live block.
        let is_over = unsafe { list.push(block, null_mut()) };
        debug_assert!(!is_over, "the countdown was above 1");
        true
    }

    /// Frees a block of a page that another owner has onto the heap's list, as `free` does with one
    /// of this heap. The thread allocates it again, and no two threads write to one cache line for
    /// it: each of these blocks has lines of its own. False: the caller still has the block.
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
    #[unsafe(link_section = ".text.hot.hakmem")]
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
        let list = &self.owner.front.lists[class];
        if check::CHECKED && list.free.get() == block {
            check::double_free(block.cast(), page);
        }
        let i = class - FIRST_LONG;
        if list.until_slow.get() <= 1 || list.most.get() == i32::from(FIRST_KEPT[i]) + 1 {
            self.overflowed.set(self.overflowed.get() | 1 << i);
            return false;
        }
        let is_parked = parked::is_owner(owner);
        if is_parked && !self.pause.try_enter() {
            self.pause.leave();
            return false;
        }
        // SAFETY: the caller gives up a live block of a page of `class`. If that is parked, no
        // purge pauses the heap.
        unsafe { self.list_of_other(class, block) };
        if is_parked {
            self.pause.leave();
        }
        list.until_slow.set(list.until_slow.get() - 1);
        true
    }

    /// Puts a block of a page that another owner has onto the heap's list of `class`.
    ///
    /// # Safety
    /// The calling thread holds this heap. The block is live, of a page of `class`, and the
    /// caller's to free. If the page was parked when the free read its owner, no purge pauses the
    /// heap, and none can begin to (`take_away` rule 5).
    #[inline(always)]
    unsafe fn list_of_other(&self, class: usize, block: *mut Block) {
        let list = &self.owner.front.lists[class].free;
        let first = list.get();
        // SAFETY: the caller gives up a live block, so its first word may hold a link from now on.
        let link = || unsafe { Block::set_next(block, first) };
        take_away::keep(link, |order| list.set_by(block, order));
    }

    /// The list of `class` is empty. If frees found it full before, it was too short for both: from
    /// now on it keeps twice as many blocks, up to `MOST_KEPT`.
    #[inline(always)]
    pub(in crate::heap) fn lengthen_list(&self, class: usize) {
        let (i, list) = (class - FIRST_LONG, &self.owner.front.lists[class]);
        let overflowed = self.overflowed.get();
        let mut most = list.most.get();
        if overflowed & 1 << i != 0 {
            self.overflowed.set(overflowed & !(1 << i));
            most = (2 * most - 1).min(i32::from(MOST_KEPT[i]) + 1);
        }
        // In this order another thread seldom reads that the list has freed blocks.
        list.until_slow.set(most);
        list.most.set(most);
    }

    /// Lets each list keep as many blocks as at first. For a new heap.
    pub(in crate::heap) fn shorten_lists(&self) {
        let lists = self.owner.front.lists[FIRST_LONG..].iter();
        lists.zip(FIRST_KEPT).for_each(|(list, first)| list.begin(first));
    }

    /// A block was taken from the heap's list of `class`. If it was a freed one, it counts as
    /// allocated now: the others counted when they were put there.
    #[inline(always)]
    pub fn note_taken(&self, class: usize) {
        if let Some(reused) = self.counts.reused.get(class.wrapping_sub(FIRST_LONG))
            && self.owner.front.lists[class].count_taken()
        {
            reused.add(1);
        }
    }

    /// Counts `n` blocks less as put on the list of `class`: they went back unused. Of the freed
    /// ones on the list, which only its countdown knows, as many go first.
    pub(in crate::heap) fn unlist(&self, class: usize, n: u32) {
        let list = &self.owner.front.lists[class];
        let kept = list.kept().min(n);
        list.until_slow.set(list.until_slow.get() + kept as i32);
        self.counts.unlist(class, n - kept);
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
    #[unsafe(link_section = ".text.hot.hakmem")]
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
                if page.list.until_slow.get() <= 0 {
                    self.unfull_or_empty(page);
                }
            })
        };
        self.counts.batches.add(batches);
    }

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
