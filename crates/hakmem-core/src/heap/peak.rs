//! The bytes of each class at the peak of live bytes.
//!
//! `note` records them only when the peak has grown by a sixteenth since the last record.

use super::all::all_heaps;
use crate::base::size_class::{CLASSES, SIZES};
use crate::base::sync::{AtomicU64, Ordering::Relaxed};
use crate::base::usage;
use crate::heap::reclaim::parked;

static SEEN: AtomicU64 = AtomicU64::new(0);
pub static BYTES: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];

/// Records the classes at a new peak of `peak` live bytes. O(heaps × classes), a few times for each
/// doubling of the peak.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn note(peak: u64) {
    let seen = SEEN.load(Relaxed);
    if peak < seen + seen / 16 || SEEN.compare_exchange(seen, peak, Relaxed, Relaxed).is_err() {
        return;
    }
    let mut blocks: [i64; CLASSES] =
        core::array::from_fn(|class| -(parked::returned(class) as i64));
    // The outer loop goes over the heaps: there may be thousands, and each lies in another system
    // page.
    for heap in all_heaps() {
        for (sum, existing) in blocks.iter_mut().zip(&heap.counts().existing) {
            *sum += existing.get();
        }
    }
    for (class, bytes) in BYTES.iter().enumerate() {
        bytes.store(blocks[class].max(0) as u64 * u64::from(SIZES[class]), Relaxed);
    }
}

/// [`note`] for a peak that huge blocks have raised: their layer knows of no heap.
pub fn follow() {
    note(usage::live().1);
}

/// The bytes of blocks of a class at the recorded peak.
pub fn of(class: usize) -> u64 {
    BYTES[class].load(Relaxed)
}
