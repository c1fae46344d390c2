//! Reads the figures of a size class.

use crate::backend::arena;
use crate::base::size_class::SIZES;
use crate::heap::counts::{self, HeapEvent};
use crate::heap::peak;
use crate::heap::reclaim::parked;
use crate::heap::span_of;
use crate::observe::stats::{Class, Snapshot};
use crate::profile;

/// Blocks of a class that were found freed: on lists, in pages, and in pages that were given up.
pub fn frees_found(snapshot: &Snapshot, all: &counts::OfClass, class: usize) -> i64 {
    all.returned
        + (parked::returned(class) + profile::returned(class) + snapshot.waiting[class]) as i64
}

#[inline(never)]
pub fn of(snapshot: &Snapshot, class: usize) -> Class {
    let all = counts::of_class(crate::heap::all::all_heaps(), class);
    let at = |what: HeapEvent| all.events[what as usize];
    let size = u64::from(SIZES[class]);
    let count = |n: i64| n.max(0) as u64;
    let existing = all.existing - (parked::returned(class) + profile::returned(class)) as i64;
    let pages = count(all.pages - parked::given(class) as i64);
    Class {
        size,
        allocations: at(HeapEvent::Listed).saturating_sub(snapshot.listed[class]),
        frees: count(frees_found(snapshot, &all, class)),
        remote_frees: at(HeapEvent::Received) + parked::received(class),
        takes: at(HeapEvent::Takes),
        carves: at(HeapEvent::Carves),
        filled: at(HeapEvent::Filled),
        unfulled: at(HeapEvent::Unfulled) + parked::whole(class),
        new_pages: at(HeapEvent::Claims),
        cached_pages: at(HeapEvent::Reuses),
        empty_pages: at(HeapEvent::Empties) + parked::given(class),
        pages,
        full_pages: count(all.full - parked::whole(class) as i64),
        page_bytes: pages * u64::from(span_of(SIZES[class])) * arena::SLOT as u64,
        carved_bytes: count(existing) * size,
        live_bytes: count(existing - (snapshot.waiting[class] + snapshot.listed[class]) as i64)
            * size,
        peak_bytes: peak::of(class),
    }
}
