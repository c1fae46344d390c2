//! The lists of parked pages: which page is in which, and which one a heap may take.
//!
//! Rule
//! 1. Only a [`Locked`] uses the lists, so only the thread that has `LOCK` does (`parked` rules 1
//!    and 2). The figures of slots and classes are hints for the others.

use super::{Locked, OWNER};
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{Meta, PageState, ParkedList};
use crate::base::size_class::CLASSES;
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::policy;
use core::cell::Cell;
use core::ptr::null_mut;

pub(super) static STATE: ParkedPages = ParkedPages {
    lists: [const { [const { PageQueue::new() }; CLASSES] }; LISTS],
    oldest: [const { Cell::new(null_mut()) }; CLASSES],
    turn: Cell::new(0),
    next: Cell::new(null_mut()),
};
/// Bit i: class i has parked pages that a heap may take. A hint: many threads read it and seldom
/// find a change.
#[unsafe(link_section = ".data.hakmem")]
pub(super) static CLASSES_HERE: AtomicU64 = AtomicU64::new(0);
/// The slots of all pages in `Unpurged` lists.
#[unsafe(link_section = ".data.hakmem")]
pub static FRESH_SLOTS: AtomicUsize = AtomicUsize::new(0);
/// The slots of all pages in `Purged` lists.
#[unsafe(link_section = ".data.hakmem")]
pub(super) static PURGED_SLOTS: AtomicUsize = AtomicUsize::new(0);
const _: () = assert!(CLASSES <= 64);

/// The number of lists. A full page is in none of them, and a lost one neither.
const LISTS: usize = ParkedList::Full as usize;

pub(super) struct ParkedPages {
    /// Indexed by list and class.
    pub(super) lists: [[PageQueue; CLASSES]; LISTS],
    /// The last page of each `Unpurged` list, which was parked first.
    pub(super) oldest: [Cell<*mut Meta>; CLASSES],
    /// The class of which [`purge_oldest`](super::purge_oldest) purges the next page.
    pub(super) turn: Cell<u8>,
    /// The page of an `Unpurged` list at which [`purge()`](super::purge()) goes on. Null: it has
    /// come to the end.
    pub(super) next: Cell<*mut Meta>,
}

// SAFETY: only the methods of `Locked` use the lists, and a `Locked` has the lock (rule 1).
unsafe impl Sync for ParkedPages {}

/// True if much of a page is free, so that a heap may take it although others share it.
fn is_worth_taking(page: &Meta) -> bool {
    let (used, cap) = (page.list.until_slow.get() as u32, page.cap.get());
    page.carved.get() == cap
        && cap - used >= cap / policy::UNFULL_FRACTION.of(page.class.get().into()).max(1)
}

impl Locked {
    /// The list that the page is in. None: the page is full or lost.
    pub(super) fn list(&self, page: &Meta) -> Option<&'static PageQueue> {
        Some(&STATE.lists.get(page.parked_list.get() as usize)?[usize::from(page.class.get())])
    }

    /// The first page of `class` in a list.
    pub(super) fn first(&self, list: ParkedList, class: usize) -> Option<&'static Meta> {
        STATE.lists[list as usize][class].first()
    }

    /// Puts a page that is in no list into one.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn link(&self, page: &Meta, list: ParkedList) {
        page.parked_list.set(list);
        let Some(queue) = self.list(page) else { return };
        if list == ParkedList::Unpurged {
            if queue.first().is_none() {
                STATE.oldest[usize::from(page.class.get())].set(page.raw());
            }
            FRESH_SLOTS.fetch_add(page.span.load(Relaxed) as usize, Relaxed);
        } else if list == ParkedList::Purged {
            PURGED_SLOTS.fetch_add(page.span.load(Relaxed) as usize, Relaxed);
        }
        queue.push(page);
        self.note_page_to_take(page);
    }

    /// Notes that a heap may take the page, if it may.
    pub(super) fn note_page_to_take(&self, page: &Meta) {
        let bit = 1 << page.class.get();
        let may_be_taken = page.parked_list.get() != ParkedList::Shared || is_worth_taking(page);
        if may_be_taken && CLASSES_HERE.load(Relaxed) & bit == 0 {
            CLASSES_HERE.fetch_or(bit, Relaxed);
        }
    }

    /// Moves a page to another list, unless it is in that list already.
    pub(super) fn relink(&self, page: &Meta, list: ParkedList) {
        if page.parked_list.get() != list {
            self.unlink(page);
            self.link(page, list);
        }
    }

    pub(super) fn unlink(&self, page: &Meta) {
        debug_assert!(page.owner() == OWNER.as_word() && page.state.get() == PageState::Parked);
        let Some(queue) = self.list(page) else { return };
        if page.parked_list.get() == ParkedList::Unpurged {
            if STATE.next.get() == page.raw() {
                STATE.next.set(page.next.get());
            }
            let oldest = &STATE.oldest[usize::from(page.class.get())];
            if oldest.get() == page.raw() {
                oldest.set(page.prev.get());
            }
            FRESH_SLOTS.fetch_sub(page.span.load(Relaxed) as usize, Relaxed);
        } else if page.parked_list.get() == ParkedList::Purged {
            PURGED_SLOTS.fetch_sub(page.span.load(Relaxed) as usize, Relaxed);
        }
        queue.remove(page);
    }

    /// A page of `class` that a heap may take for its own. A shared page only counts if much of it
    /// is free.
    pub(super) fn page_to_take(&self, class: usize) -> Option<&'static Meta> {
        let with_few_used = self
            .first(ParkedList::Unpurged, class)
            .or_else(|| self.first(ParkedList::Purged, class));
        with_few_used
            .or_else(|| self.first(ParkedList::Shared, class).filter(|page| is_worth_taking(page)))
    }

    /// A page of `class` for a heap that shares. It may turn out to have no free block.
    pub(super) fn page_to_share(&self, class: usize) -> Option<&'static Meta> {
        [ParkedList::Shared, ParkedList::Unpurged, ParkedList::Purged]
            .into_iter()
            .find_map(|list| self.first(list, class))
    }
}
