//! What all segments hold together. Claims, releases and heaps tell of changes. Any thread reads
//! the sums.
//!
//! Rules
//! 1. Changes may come late and in any order. So a sum may be below zero for a while.

use crate::base::sync::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use crate::proto::slots::SLOTS;
use crossbeam_utils::CachePadded;

/// What claims and releases of all threads write. It has a line of memory of its own: a thread that
/// reads a word beside it would wait for each of them.
#[repr(C)]
pub struct Totals {
    /// Bytes in DIRTY slots.
    pub(super) dirty: AtomicUsize,
    /// Segments that are claimed for pages and large blocks.
    pub(super) in_use: AtomicUsize,
    /// Bytes of carved small blocks, as far as heaps have reported them.
    pub(super) carved: AtomicI64,
    /// Slots that are pages of small blocks.
    pub(super) small: AtomicUsize,
}

/// The note of `stats::view` names its first word, the dirty bytes.
#[unsafe(link_section = ".data.hakmem")]
pub static TOTALS: CachePadded<Totals> = CachePadded::new(Totals {
    dirty: AtomicUsize::new(0),
    in_use: AtomicUsize::new(0),
    carved: AtomicI64::new(0),
    small: AtomicUsize::new(0),
});

/// Bytes in DIRTY slots of which heaps have not told `TOTALS`, as the last pass of the purge saw
/// it: in a program of a thousand threads up to 1 GiB, either way.
pub(super) static UNTOLD: AtomicUsize = AtomicUsize::new(0);

/// Bytes in DIRTY slots, as far as passes of the purge know: for decisions about memory.
#[inline(always)]
pub fn expected_dirty_bytes() -> isize {
    signed_dirty_bytes().wrapping_add(UNTOLD.load(Relaxed).cast_signed())
}

/// Bytes in DIRTY slots: free, but not given back to the system. Below zero while heaps have not
/// told of what they freed yet.
#[inline(always)]
pub fn signed_dirty_bytes() -> isize {
    TOTALS.dirty.load(Relaxed).cast_signed()
}

/// [`signed_dirty_bytes`], but not below zero.
#[cfg(test)]
pub fn dirty_bytes() -> usize {
    signed_dirty_bytes().max(0).cast_unsigned()
}

/// Adds `change` to the bytes of carved small blocks. Heaps call it in steps that they choose.
pub fn note_carved(change: i64) {
    TOTALS.carved.fetch_add(change, Relaxed);
}

/// As many segments as the pages of small blocks fill. The total is below zero while a heap has
/// told of pages that it gave up, and not yet of as many that it claimed.
pub(super) fn small_segments() -> usize {
    TOTALS.small.load(Relaxed).cast_signed().max(0).cast_unsigned() / SLOTS as usize
}

/// Segments with slots in use.
pub fn in_use() -> usize {
    TOTALS.in_use.load(Relaxed)
}

/// Adds `change` to the slots that are pages of small blocks.
pub fn note_small(change: isize) {
    TOTALS.small.fetch_add(change as usize, Relaxed);
}
