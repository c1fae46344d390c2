//! The books of a heap: its live blocks and their bytes, the limit, and what the heap holds.
//!
//! Rules
//! 1. Only the holder of the lock changes them (`program` rule 1).
//! 2. A request beyond the limit changes nothing but the count of refused ones (`program` rule 7).
//! 3. Slots also count as live memory of the process. When the heap holds less than before,
//!    `released` is set.
//! 4. What was charged may still be refused, for want of memory. So the peak is noted afterwards.

use super::{Locked, ProgramHeap, Way, registry};
use crate::backend::held;
use crate::base::sync::Ordering::Relaxed;
use crate::heap::Heap;

impl ProgramHeap {
    /// How many of `count` blocks of `size` bytes the limit allows. It may change at once for a
    /// caller without the lock.
    pub(super) fn allowed(&self, count: u64, size: u64) -> u64 {
        count.min((self.limit.load(Relaxed) as u64).saturating_sub(self.figures.live.get()) / size)
    }
}

impl Locked {
    /// Counts `count` blocks of `size` bytes, or as many as the limit allows, at least one. None:
    /// it allows none.
    pub(super) fn charge(&self, way: Way, count: u64, size: u64) -> Option<u64> {
        let figures = &self.heap.figures;
        let count = self.heap.allowed(count, size);
        if count == 0 {
            figures.refused.add(1);
            return None;
        }
        self.add_live(way, count * size);
        figures.allocations.add(count);
        let pages = self.pages(way);
        pages.blocks.set(pages.blocks.get() + count);
        Some(count)
    }

    /// [`Self::charge`] of one block. None: the limit does not allow it.
    #[inline]
    pub(super) fn charge_one(&self, way: Way, size: u64) -> Option<()> {
        self.charge_bytes(way, size)?;
        self.heap.figures.allocations.add(1);
        let blocks = &self.pages(way).blocks;
        blocks.set(blocks.get() + 1);
        Some(())
    }

    /// Counts `bytes` more of a block. None: the limit does not allow them.
    #[inline]
    pub(super) fn charge_bytes(&self, way: Way, bytes: u64) -> Option<()> {
        let figures = &self.heap.figures;
        if bytes > (self.heap.limit.load(Relaxed) as u64).saturating_sub(figures.live.get()) {
            figures.refused.add(1);
            return None;
        }
        self.add_live(way, bytes);
        Some(())
    }

    #[inline]
    fn add_live(&self, way: Way, bytes: u64) {
        let (figures, of_way) = (&self.heap.figures, &self.pages(way).bytes);
        figures.live.set(figures.live.get() + bytes);
        of_way.set(of_way.get() + bytes);
    }

    /// Notes the most bytes that were live. To be called once there is a block for all that was
    /// charged.
    #[inline]
    pub(super) fn note_peak(&self) {
        let figures = &self.heap.figures;
        figures.peak.set(figures.peak.get().max(figures.live.get()));
    }

    /// Counts `bytes` of a block as live no more.
    #[inline]
    pub(super) fn discharge_bytes(&self, way: Way, bytes: u64) {
        let (figures, of_way) = (&self.heap.figures, &self.pages(way).bytes);
        figures.live.set(figures.live.get() - bytes);
        of_way.set(of_way.get() - bytes);
    }

    /// Takes back what [`Locked::charge`] counted.
    pub(super) fn uncharge(&self, way: Way, count: u64, size: u64) {
        self.discharge(way, count, size);
        let figures = &self.heap.figures;
        figures.allocations.set(figures.allocations.get() - count);
    }

    /// Counts `count` blocks as live no more.
    #[inline]
    pub(super) fn discharge(&self, way: Way, count: u64, size: u64) {
        let blocks = &self.pages(way).blocks;
        blocks.set(blocks.get() - count);
        self.discharge_bytes(way, count * size);
    }

    /// Notes a change of the bytes that the heap holds.
    pub(super) fn note_held(&self, change: i64) {
        let figures = &self.heap.figures;
        figures.held.set(figures.held.get().wrapping_add_signed(change));
        if change < 0 || held::is_beyond() {
            self.heap.released.store(true, Relaxed);
        }
    }

    /// [`Locked::note_held`] for slots, which count as live memory of the process too.
    pub(super) fn note_slots(&self, change: i64) {
        self.note_held(change);
        Heap::tell_live(change, change);
    }
}

/// Bytes of live blocks in pages of program heaps. O(program heaps).
pub fn bytes_in_pages() -> u64 {
    registry::all().map(|heap| heap.figures.in_pages.get()).sum()
}
