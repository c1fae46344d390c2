//! Reads the figures of a thread heap.

use crate::heap::counts::HeapEvent;
use crate::heap::shared::SharedHeap;
use crate::observe::stats::{HeapUse, ThreadHeap};
use crate::{heap, thread};

#[inline(never)]
pub fn of(heap: &'static SharedHeap) -> ThreadHeap {
    let (counts, sent) = (heap.counts(), heap.sent());
    let state = match () {
        () if heap.has_front(thread::own_front()) => HeapUse::Own,
        () if heap::pool::is_live(heap) => HeapUse::Running,
        () => HeapUse::Idle,
    };
    ThreadHeap {
        state,
        listed: heap.listed(),
        takes: counts.sum(HeapEvent::Takes),
        carves: counts.sum(HeapEvent::Carves),
        next_pages: counts.next_pages.get(),
        holes_filled: counts.holes_filled.get(),
        filled: counts.sum(HeapEvent::Filled),
        unfulled: counts.sum(HeapEvent::Unfulled),
        new_pages: counts.sum(HeapEvent::Claims),
        cached_pages: counts.sum(HeapEvent::Reuses),
        empty_pages: counts.sum(HeapEvent::Empties),
        pages_parked: counts.parked.get(),
        pages_unparked: counts.unparked.get(),
        merges: counts.merges.get(),
        batches_received: counts.batches.get(),
        blocks_received: counts.sum(HeapEvent::Received),
        blocks_sent: sent.blocks,
        batches_sent: sent.batches,
        chains_sent: sent.chains,
        large_allocations: counts.large_allocated(),
        large_hits: counts.large_hits.get(),
        large_frees: counts.large_freed.get(),
    }
}
