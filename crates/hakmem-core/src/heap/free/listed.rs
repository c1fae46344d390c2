//! The lists of blocks above 1 KiB: each heap has one of a class. Frees of its thread put blocks
//! there, of its own pages and of others', and the next allocation takes the block that was freed
//! last. `until_slow` of such a list counts the room that is left.
//!
//! A list keeps few blocks at first. It becomes longer where frees find it full and allocations
//! then find it empty.
//!
//! What of this is about lists of smaller blocks, too, says so. `current` has the rest.

use crate::backend::check;
use crate::backend::list::List;
use crate::backend::owner::Owner;
use crate::backend::page::{self, Block, FIRST_LISTED, Meta};
use crate::base::size_class::{CLASSES, FIRST_LONG, FIRST_MEDIUM, SIZES};
use crate::heap::Heap;
use crate::heap::reclaim::parked;
use crate::proto::inbox::Link;
use crate::proto::take_away;
use crate::{guard, harden, profile};
use core::hint::assert_unchecked;
use core::ptr::{NonNull, null_mut};

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

impl Heap {
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
    /// at `block`, or if that link leads to no place of a block. Frees put blocks there, and check
    /// only that it is not the first one.
    ///
    /// # Safety
    /// `block` is on the heap's list of `class`, and the calling thread holds the heap.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) unsafe fn checked_next(class: usize, block: *mut Block) -> *mut Block {
        if !check::may_start(block, class as u8) {
            match page::lookup(block.cast()) {
                // The hardened build's frees check their pointers: it must be a link.
                Some(slot) if !harden::ON => check::freed_before(block.cast(), slot),
                _ => check::corrupt(block.cast()),
            }
        }
        // SAFETY: the block is on the heap's list, so its first word is a link.
        let next = unsafe { Block::next(block) };
        check::check_link(block, next);
        if class < FIRST_LISTED && !check::is_link_to(class, next) {
            check::corrupt(block.cast());
        }
        // SAFETY: the link leads to where a block of the class starts, in memory of a page.
        if class < FIRST_LISTED && !next.is_null() && unsafe { Block::next(next) } == block {
            check::freed_twice(block);
        }
        next
    }

    /// Takes the first block off the heap's list of `class`, and checks what the fast path does not
    /// check itself. None: the list is empty.
    pub fn take_listed(&self, class: usize) -> Option<NonNull<Block>> {
        let list = &self.owner.front.lists[class].free;
        let block = NonNull::new(list.get())?;
        // SAFETY: the block is on the heap's list of the class.
        let next = unsafe {
            // In the child of a fork, the list of another thread may be newer than a link in it.
            if self.inherited.get()
                && class < FIRST_LISTED
                && !check::is_link_to(class, Block::next(block.as_ptr()))
            {
                null_mut()
            } else {
                Self::checked_next(class, block.as_ptr())
            }
        };
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
    pub(in crate::heap) unsafe fn list_of_other(&self, class: usize, block: *mut Block) {
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

    /// Counts `n` blocks less as put on the list of `class`: they went back unused. Of those
    /// that frees put there, and that only the countdown knows, as many go first.
    pub(in crate::heap) fn unlist(&self, class: usize, n: u32) {
        let list = &self.owner.front.lists[class];
        let kept = list.kept().min(n);
        list.until_slow.set(list.until_slow.get() + kept as i32);
        self.counts.unlist(class, n - kept);
    }
}
