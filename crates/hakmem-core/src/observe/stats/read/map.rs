//! Reads what each slot of each segment holds, for the map.

use super::heap_walk::{self, Held};
use crate::backend::owner::Owner;
use crate::backend::page::glance::{self, Glance};
use crate::backend::page::{self, Meta};
use crate::base::sync::Ordering::Relaxed;
use crate::heap::{reclaim::parked, shared::SharedHeap};
use crate::observe::stats::map::SLOTS;
use crate::observe::stats::{
    Content, HeapName, Huge, Page, PageState, SEGMENT_BYTES, SLOT_BYTES, Segment, Slot,
};
use crate::{os, program, thread};

/// What the slots of a segment are read from.
pub struct Source {
    head: &'static Meta,
    looks_into_lists: bool,
}

/// The slots of a segment that is divided into slots.
pub fn slots(source: &Source) -> impl Iterator<Item = Slot> {
    heap_walk::slots(source.head).map(|(first, span, held)| {
        let (content, meta) = match held {
            Held::Clean => (Content::Clean, None),
            Held::Dirty => (Content::Dirty, None),
            Held::Kept => (Content::Kept, None),
            Held::Large(meta) => (Content::Large, Some(meta)),
            Held::Page(meta) => (Content::Page(page(meta, source.looks_into_lists)), Some(meta)),
        };
        Slot { first, span, content, heap: meta.and_then(heap_of) }
    })
}

fn page(meta: &Meta, looks_into_lists: bool) -> Page {
    let page = glance::page(meta);
    let listed = if looks_into_lists { listed(meta.owner(), meta) } else { 0 };
    let Glance { size, blocks, carved, .. } = page;
    let state = page.state.map_or(PageState::Program, state);
    Page { size, blocks, carved, used: page.used.saturating_sub(listed), state }
}

/// The state of a page in words of the map.
fn state(of: page::PageState) -> PageState {
    match of {
        page::PageState::Retired => PageState::Retired,
        page::PageState::Full => PageState::Full,
        page::PageState::Candidate => PageState::Candidate,
        page::PageState::Parked => PageState::Parked,
        _ => PageState::Queue,
    }
}

/// The name of the program's heap that has a page or a block.
fn heap_of(head: &Meta) -> Option<HeapName> {
    program::heap_of_slots(head).map(|heap| heap.figures.name())
}

/// Pieces of 4 KiB that are resident, in each slot of the segment at this address.
pub fn resident(address: usize) -> Option<[u8; SLOTS]> {
    let page = os::page_size();
    let mut pages = [os::Page::Absent; SEGMENT_BYTES / 4096];
    let pages = &mut pages[..SEGMENT_BYTES / page];
    if !os::Pagemap::open_file()?.read(address, pages) {
        return None;
    }
    let mut counts = [0; SLOTS];
    for (count, slot) in counts.iter_mut().zip(pages.chunks(SLOT_BYTES / page)) {
        let resident = slot.iter().filter(|&&page| page == os::Page::Resident).count();
        *count = (resident * (page / 4096)).min(255) as u8;
    }
    Some(counts)
}

/// Blocks of `page` on its owner's list, if the owner is the calling thread's heap. Otherwise 0.
fn listed(owner: *mut Owner, page: &Meta) -> u32 {
    if owner.is_null() || parked::is_owner(owner) {
        return 0;
    }
    // SAFETY: an owner that is none of parked pages is a heap. Heaps are never freed.
    let heap = unsafe { &*owner.cast::<SharedHeap>() };
    if !heap.has_front(thread::own_front()) || heap.is_busy() {
        return 0;
    }
    let bytes = page.span.load(Relaxed) as usize * SLOT_BYTES;
    let start = page.start().addr();
    // SAFETY: this thread's word leads to the heap, so this thread holds it. It is not in the
    // middle of a change, so no thread changes the list or writes to its blocks during the call.
    unsafe {
        heap.holder().listed_within(usize::from(page.class.get()), start..start + bytes) as u32
    }
}

/// Calls `f` with each segment in use, by address within each arena.
pub fn each_segment(f: &mut dyn FnMut(&Segment)) {
    walk(!thread::holds_a_lock(), f);
}

/// The same for signal handlers.
pub fn each_segment_from_outside(f: &mut dyn FnMut(&Segment)) {
    walk(false, f);
}

#[inline(never)]
fn walk(looks_into_lists: bool, f: &mut dyn FnMut(&Segment)) {
    heap_walk::each_segment(|head, address, huge| {
        let thp = head.segment().is_thp();
        let huge = huge.map(|(segments, room)| Huge { segments, reserve: room - segments });
        let heap = if huge.is_some() { heap_of(head) } else { None };
        f(&Segment { source: Source { head, looks_into_lists }, address, thp, huge, heap });
    });
}
