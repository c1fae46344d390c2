//! Which classes the memory was in when there was most of it.
//!
//! Looked at when the peak of live bytes has grown by a sixteenth since the last time, so seldom.

use super::all::all_heaps;
use crate::base::size_class::{CLASSES, SIZES};
use crate::base::sync::{AtomicU64, Ordering::Relaxed};
use crate::heap::parked;

static SEEN: AtomicU64 = AtomicU64::new(0);
pub static BYTES: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];

/// The live bytes have reached `peak`, higher than ever. O(heaps × classes), a few times for each doubling of the peak.
#[cold]
#[inline(never)]
pub fn note(peak: u64) {
    let seen = SEEN.load(Relaxed);
    if peak < seen + seen / 16 || SEEN.compare_exchange(seen, peak, Relaxed, Relaxed).is_err() {
        return;
    }
    let mut blocks: [i64; CLASSES] = core::array::from_fn(|class| -(parked::returned(class) as i64));
    // Heap by heap: there may be thousands, and each lies in a page of its own.
    for heap in all_heaps() {
        for (sum, existing) in blocks.iter_mut().zip(&heap.counts().existing) {
            *sum += existing.get();
        }
    }
    for (class, bytes) in BYTES.iter().enumerate() {
        bytes.store(blocks[class].max(0) as u64 * u64::from(SIZES[class]), Relaxed);
    }
}

/// Bytes of blocks of a class then.
pub fn of(class: usize) -> u64 {
    BYTES[class].load(Relaxed)
}
