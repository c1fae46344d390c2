//! Figures of a thread heap.

/// Who has a heap.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Hakmem, stats::{Snapshot, HeapUse}};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let own = Snapshot::take().heaps().filter(|heap| heap.state == HeapUse::Own).count();
/// assert_eq!(own, 1, "the heap of this thread");
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapUse {
    /// The thread that asks.
    Own,
    /// Another thread.
    Running,
    /// No thread: its last thread has ended, and a new thread may take it.
    Idle,
}

impl HeapUse {
    /// The word for it in reports.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::HeapUse;
    ///
    /// assert_eq!(HeapUse::Idle.name(), "idle");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            HeapUse::Own => "own",
            HeapUse::Running => "running",
            HeapUse::Idle => "idle",
        }
    }
}

/// What the threads that had a heap one after the other have done.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::Snapshot;
///
/// for heap in Snapshot::take().heaps() {
///     println!("{}: {} blocks freed for other heaps", heap.state.name(), heap.blocks_sent);
/// }
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ThreadHeap {
    /// The thread that has it now.
    pub state: HeapUse,
    /// Blocks put on its lists. Those still there, or put back, were not allocated.
    pub listed: u64,
    /// Free lists taken from pages, and from holes in them.
    pub takes: u64,
    /// Times the heap carved blocks.
    pub carves: u64,
    /// Refills from a page of the queue that was not the first.
    pub next_pages: u64,
    /// Of the lists taken, those from holes.
    pub holes_filled: u64,
    /// Pages that became full.
    pub filled: u64,
    /// Full pages that went back into the queue.
    pub unfulled: u64,
    /// Pages claimed from segments.
    pub new_pages: u64,
    /// Cached pages used again.
    pub cached_pages: u64,
    /// Pages given up empty.
    pub empty_pages: u64,
    /// Pages parked, with few used blocks, so that their holes can be given back.
    pub pages_parked: u64,
    /// Parked pages that the heap took.
    pub pages_unparked: u64,
    /// Times the heap merged an inbox that was not empty.
    pub merges: u64,
    /// Remote batches merged.
    pub batches_received: u64,
    /// Blocks in these batches.
    pub blocks_received: u64,
    /// Blocks freed for other heaps.
    pub blocks_sent: u64,
    /// Remote batches they were sent in.
    pub batches_sent: u64,
    /// Chains of batches: one compare-and-swap each.
    pub chains_sent: u64,
    /// Large blocks allocated.
    pub large_allocations: u64,
    /// Of these, from the heap's own cache.
    pub large_hits: u64,
    /// Large blocks freed.
    pub large_frees: u64,
}
