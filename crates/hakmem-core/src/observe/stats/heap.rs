//! Figures of a thread heap.

use crate::heap::counts::Event;
use crate::{heap, thread};

/// Who has a heap.
///
/// ```
/// use hakmem_core::{Hakmem, stats::{Snapshot, State}};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let own = Snapshot::take().heaps().filter(|heap| heap.state == State::Own).count();
/// assert_eq!(own, 1, "the heap of this thread");
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The thread that asks.
    Own,
    /// Another thread.
    Running,
    /// Nobody: its last thread has ended, the next one gets it.
    Idle,
}

impl State {
    /// The word for it in reports.
    ///
    /// ```
    /// use hakmem_core::stats::State;
    ///
    /// assert_eq!(State::Idle.name(), "idle");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            State::Own => "own",
            State::Running => "running",
            State::Idle => "idle",
        }
    }
}

/// What the threads that had a heap one after the other have done.
///
/// ```
/// use hakmem_core::stats::Snapshot;
///
/// for heap in Snapshot::take().heaps() {
///     println!("{}: {} blocks freed for other heaps", heap.state.name(), heap.blocks_sent);
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Heap {
    /// Who has it now.
    pub state: State,
    /// Blocks put on its lists. What is still there, or was put back, has not been handed out.
    pub handed: u64,
    /// Lists taken from pages, and from holes in them.
    pub takes: u64,
    /// Batches of fresh blocks.
    pub carves: u64,
    /// Refills served by another page of the queue than the first.
    pub next_pages: u64,
    /// Of the lists taken, those from holes.
    pub holes_filled: u64,
    /// Pages put aside because all their blocks were out.
    pub sleeps: u64,
    /// Pages woken.
    pub wakes: u64,
    /// Pages claimed from segments.
    pub new_pages: u64,
    /// Retained pages used again.
    pub retained_pages: u64,
    /// Pages given up empty.
    pub empty_pages: u64,
    /// Pages handed over with few live blocks, so that their holes can be given back.
    pub pages_set_aside: u64,
    /// Such pages taken back.
    pub pages_taken_back: u64,
    /// Times that its inbox had something.
    pub merges: u64,
    /// Parcels merged.
    pub parcels_received: u64,
    /// Blocks merged.
    pub blocks_received: u64,
    /// Blocks freed for other heaps.
    pub blocks_sent: u64,
    /// Parcels they went in.
    pub parcels_sent: u64,
    /// Batches of parcels: one compare-and-swap each.
    pub batches_sent: u64,
    /// Large blocks handed out.
    pub large_allocations: u64,
    /// Of these, from the heap's own cache.
    pub large_hits: u64,
    /// Large blocks freed.
    pub large_frees: u64,
}

#[inline(never)]
pub fn of(heap: &'static heap::Heap) -> Heap {
    let (counts, outgoing) = (&heap.counts, &heap.outgoing);
    let state = match () {
        () if core::ptr::eq(&heap.owner.front, thread::front()) => State::Own,
        () if heap::pool::is_live(heap) => State::Running,
        () => State::Idle,
    };
    Heap {
        state,
        handed: counts.sum(Event::Handed),
        takes: counts.sum(Event::Takes),
        carves: counts.sum(Event::Carves),
        next_pages: counts.next_pages.get(),
        holes_filled: counts.holes_filled.get(),
        sleeps: counts.sum(Event::Sleeps),
        wakes: counts.sum(Event::Wakes),
        new_pages: counts.sum(Event::Claims),
        retained_pages: counts.sum(Event::Reuses),
        empty_pages: counts.sum(Event::Empties),
        pages_set_aside: counts.set_aside.get(),
        pages_taken_back: counts.taken_back.get(),
        merges: counts.merges.get(),
        parcels_received: counts.parcels.get(),
        blocks_received: counts.sum(Event::Received),
        blocks_sent: outgoing.sent.get(),
        parcels_sent: outgoing.parcels_sent.get(),
        batches_sent: outgoing.batches_sent.get(),
        large_allocations: counts.large_handed.get(),
        large_hits: counts.large_hits.get(),
        large_frees: counts.large_returned.get(),
    }
}
