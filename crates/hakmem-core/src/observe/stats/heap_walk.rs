//! The heap walk: what each segment and each slot is used for.

/// Segments by their use, and the slots of those that are divided into slots.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Hakmem, stats::{SLOT_BYTES, Snapshot}};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let data = vec![0u8; 500_000];
/// let slots = Snapshot::take().heap_walk().large_slots;
/// assert!(slots * SLOT_BYTES as u64 >= 500_000);
/// # drop(data); }
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct HeapWalk {
    /// Segments that are divided into slots.
    pub slotted_segments: u64,
    /// Segments of live huge blocks.
    pub huge_segments: u64,
    /// Segments whose address space is kept for huge blocks to grow into.
    pub reserve_segments: u64,
    /// Segments of the huge cache, or changing hands.
    pub cached_segments: u64,
    /// Segments that ask for THP.
    pub thp_segments: u64,
    /// Slots of pages.
    pub page_slots: u64,
    /// Slots of live large blocks.
    pub large_slots: u64,
    /// Slots that heaps keep: empty pages, cached large blocks.
    pub kept_slots: u64,
    /// Dirty slots: free, and not given back to the system.
    pub dirty_slots: u64,
    /// Clean slots: free, without memory.
    pub clean_slots: u64,
}
