//! Reads the figures of a size class.

use crate::backend::arena;
use crate::base::size_class::{CLASSES, SIZES};
use crate::heap::counts::{self, HeapEvent, OfClass};
use crate::heap::reclaim::parked;
use crate::heap::{all::all_heaps, peak, span_of};
use crate::observe::stats::{Blocks, Class, Snapshot};
use crate::profile;

/// Free blocks of each class.
pub struct Free {
    /// On the lists of heaps that could be read.
    pub listed: [u64; CLASSES],
    /// On the free lists of pages.
    pub in_pages: [u64; CLASSES],
}

impl Free {
    pub const NONE: Self = Self { listed: [0; CLASSES], in_pages: [0; CLASSES] };
}

/// Reads the blocks and pages of each class. O(heaps) for each.
#[inline(never)]
pub fn blocks(free: &Free) -> [Blocks; CLASSES] {
    core::array::from_fn(|class| {
        let all = counts::of_class(all_heaps(), class);
        let (listed, in_pages) = (free.listed[class], free.in_pages[class]);
        let given_up = (parked::returned(class) + profile::returned(class)) as i64;
        let existing = all.existing - given_up;
        Blocks {
            allocations: event(&all, HeapEvent::Listed).saturating_sub(listed),
            frees: all.returned + given_up + in_pages as i64,
            remote_frees: event(&all, HeapEvent::Received) + parked::received(class),
            pages: count(all.pages - parked::given(class) as i64),
            carved: count(existing),
            live: count(existing - (in_pages + listed) as i64),
        }
    })
}

fn event(all: &OfClass, what: HeapEvent) -> u64 {
    all.events[what as usize]
}

/// A number that is below 0 for a moment, if other threads count meanwhile.
fn count(n: i64) -> u64 {
    n.max(0) as u64
}

#[inline(never)]
pub fn of(snapshot: &Snapshot, class: usize) -> Class {
    let blocks = &snapshot.blocks[class];
    let all = counts::of_class(all_heaps(), class);
    let at = |what| event(&all, what);
    let size = u64::from(SIZES[class]);
    Class {
        size,
        allocations: blocks.allocations,
        frees: count(blocks.frees),
        remote_frees: blocks.remote_frees,
        takes: at(HeapEvent::Takes),
        carves: at(HeapEvent::Carves),
        filled: at(HeapEvent::Filled),
        unfulled: at(HeapEvent::Unfulled) + parked::whole(class),
        new_pages: at(HeapEvent::Claims),
        cached_pages: at(HeapEvent::Reuses),
        empty_pages: at(HeapEvent::Empties) + parked::given(class),
        pages: blocks.pages,
        full_pages: count(all.full - parked::whole(class) as i64),
        page_bytes: blocks.pages * u64::from(span_of(SIZES[class])) * arena::SLOT as u64,
        carved_bytes: blocks.carved * size,
        live_bytes: blocks.live * size,
        peak_bytes: peak::of(class),
    }
}
