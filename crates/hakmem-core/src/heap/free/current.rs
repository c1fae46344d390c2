//! Frees to the current page: of each class up to `SMALL_MAX`, the page that the heap's list is of.
//!
//! A free of such a block goes to the heap's list, so the next malloc gets it: what the program
//! used last is in the cache. If it went to the page's list, a program that allocates and frees in
//! turn would go through all blocks of the page before it gets one again. Frees of other pages go
//! to their own lists. So what the heap's list has is of one page, but for blocks of other owners.
//!
//! The page's `frees_to` says where its frees go. So this costs `free` nothing.
//!
//! ```text
//! refill:  last current page: frees_to = its own list      this page: frees_to = the heap's list
//! ```
//!
//! Rules
//! 1. The blocks that the page has on the heap's list are used (`page`). So the page does not
//!    become empty while the list has blocks of it. A purge may park it (`reclaim::sleeping`).
//! 2. A page that becomes full is left before that, as nobody but the frees comes to a full page
//!    (`proto::page_state` rule 1).
//! 3. The list counts these frees by its countdown from `most` (`list`). [`Heap::count_back`] moves
//!    the number to the counters: each is a block that came onto the list.
//! 4. While allocations are sampled, the countdown ends ahead of the next sample of the class: no
//!    block that the list hands out is one. Then frees go to the page, until a refill.
//! 5. A page stays in `current` after it left the heap, as its metadata stays. So whoever reads it
//!    there asks whether the heap owns it, and for its class.

use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::list::List;
use crate::backend::page::{Block, Meta};
use crate::base::size_class::{FIRST_LONG, SIZES};
use crate::heap::Heap;
use crate::heap::counts::HeapEvent;
use crate::{guard, harden, profile};
use core::ptr::{from_ref, null};

/// So many frees to the list of a class come between two looks at it.
const ROOM: u32 = 256;

impl Heap {
    /// The blocks of the heap's list of `class`, which was empty, are of `page` from now on. The
    /// heap owns the page. The caller is inside.
    #[inline(always)]
    pub(in crate::heap) fn make_current(&self, class: usize, page: &Meta) {
        if harden::ON {
            return;
        }
        let Some(current) = self.current.get(class) else { return };
        let list = &self.owner.front.lists[class];
        self.note_back(class, list);
        let last = current.replace(page);
        if !core::ptr::eq(last, page) {
            self.end_current(class, last);
        }
        // Else `limit_current` opens the list, once it is cut.
        if profile::run() | guard::every() == 0 {
            open(list, page, ROOM);
        } else {
            close(list, page);
        }
    }

    /// The blocks of the heap's list of `class` are of no page of the heap.
    pub(in crate::heap) fn leave_current(&self, class: usize) {
        let Some(current) = self.current.get(class) else { return };
        let list = &self.owner.front.lists[class];
        self.note_back(class, list);
        list.renew(0);
        self.end_current(class, current.replace(null()));
    }

    /// The page becomes full (rule 2). If it is the current one of `class`, the list is empty.
    #[inline(always)]
    pub(in crate::heap) fn leave_page(&self, class: usize, page: &Meta) {
        if self.current.get(class).is_some_and(|current| core::ptr::eq(current.get(), page)) {
            self.leave_current(class);
        }
    }

    /// Lets frees go to the list of `class`, as many as leave no sample among what it hands out.
    /// The list was counted before.
    pub(in crate::heap) fn limit_current(&self, class: usize) {
        let Some(page) = self.current_page(class) else { return };
        let list = &self.owner.front.lists[class];
        self.note_back(class, list);
        let room = self.blocks_to_sample(class).min(ROOM);
        if room > 0 { open(list, page, room) } else { close(list, page) }
    }

    /// Counts the frees to the list of `class`, if it is one up to `SMALL_MAX`: the countdown knows
    /// them. The next ones have to be allowed anew.
    pub(in crate::heap) fn count_back(&self, class: usize) {
        if class >= FIRST_LONG {
            return;
        }
        let list = &self.owner.front.lists[class];
        let before = self.counts.recent(class, HeapEvent::Listed);
        self.note_back(class, list);
        self.follow_listed(class, before);
        self.counts.make_room(class);
        match self.current_page(class) {
            Some(page) => close(list, page),
            None => list.renew(0),
        }
    }

    /// The countdown of the list of `class`, one up to `SMALL_MAX`, is over. O(1), and now and then
    /// O(blocks of a page).
    #[cold]
    pub fn current_over(&self, class: usize) {
        self.busy(|| {
            self.count_back(class);
            self.receive_remote_frees();
            if !self.inherited.get() {
                // SAFETY: the list is of this heap, which the calling thread holds.
                unsafe { self.look_at(class, self.owner.front.lists[class].free.get()) };
            }
            self.limit_current(class);
        });
    }

    /// Looks for errors of the program in the list of `class`: a block that was freed twice with
    /// one between, and now and then in all of it.
    ///
    /// # Safety
    /// The list is the heap's, and begins with `first`.
    unsafe fn look_at(&self, class: usize, first: *mut Block) {
        // The list has all blocks of a page at most, and twice 48 KiB of other owners.
        let all = 4 * SLOT as u32 / SIZES[class];
        let (walks, mut block) = (self.walks_now(), first);
        for i in 0..if walks { all } else { 3 } {
            if block.is_null() {
                return;
            }
            if check::CHECKED && i > 0 && block == first {
                check::freed_twice(first);
            }
            // SAFETY: the block is on the heap's list: the caller passes the first one, and the
            // others are what `checked_next` found.
            block = unsafe { Self::checked_next(class, block) };
        }
        if check::CHECKED && walks && !block.is_null() {
            check::corrupt(first.cast());
        }
    }

    /// Notes the frees to the list of `class` since the countdown began.
    #[inline(always)]
    fn note_back(&self, class: usize, list: &List) {
        self.counts.note(class, HeapEvent::Listed, list.kept());
    }

    /// The page that was the current one of `class` gets its frees itself, if it is still the
    /// heap's.
    #[inline(always)]
    fn end_current(&self, class: usize, last: *const Meta) {
        // SAFETY: null or metadata, which is accessible for ever (`arena` rule 4).
        if let Some(last) = unsafe { last.as_ref() }
            && self.is_of(class, last)
        {
            last.frees_to.set(from_ref(&last.list).cast_mut());
        }
    }

    /// The current page of `class`, if the heap owns it still.
    fn current_page(&self, class: usize) -> Option<&'static Meta> {
        // SAFETY: null or metadata, which is accessible for ever (`arena` rule 4).
        unsafe { self.current.get(class)?.get().as_ref() }.filter(|page| self.is_of(class, page))
    }

    /// Rule 5. Inside, no purge has the page for a moment (`reclaim::sleeping` rule 3).
    #[inline(always)]
    fn is_of(&self, class: usize, page: &Meta) -> bool {
        page.owner() == self.owner() && usize::from(page.class.get()) == class
    }
}

/// The list takes `room` frees of the page's blocks.
#[inline(always)]
fn open(list: &List, page: &Meta, room: u32) {
    list.renew(room as i32);
    page.frees_to.set(from_ref(list).cast_mut());
}

/// The list takes no frees.
#[inline(always)]
fn close(list: &List, page: &Meta) {
    page.frees_to.set(from_ref(&page.list).cast_mut());
    list.renew(0);
}
