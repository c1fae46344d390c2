//! Counters of parked pages, and of pages that end without a heap that counts them. They count as
//! the counters of heaps do, and reports add the two.

use crate::backend::page::Meta;
use crate::base::renew::Renew;
use crate::base::size_class::CLASSES;
use crate::base::sync::{AtomicU64, Ordering::Relaxed};

/// Blocks of each class in the parked pages that were given up. They count as freed.
pub static RETURNED: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];
/// Parked pages of each class that were given up; in the child of a fork, since the fork.
pub static GIVEN: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];
/// Full pages of each class that others than their owner gave up ([`end_whole`]).
pub static WHOLE: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];
/// Blocks of each class that were freed while their page was parked, or given up while it was full.
pub static RECEIVED: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];

/// Blocks of `class` in the parked pages that were given up.
pub fn returned(class: usize) -> u64 {
    RETURNED[class].load(Relaxed)
}

/// Parked pages of `class` that were given up; in the child of a fork, since the fork.
pub fn given(class: usize) -> u64 {
    GIVEN[class].load(Relaxed)
}

/// Blocks of `class` that were freed while their page was parked.
pub fn received(class: usize) -> u64 {
    RECEIVED[class].load(Relaxed)
}

/// Full pages of `class` that others than their owner gave up.
pub fn whole(class: usize) -> u64 {
    WHOLE[class].load(Relaxed)
}

/// Resets the counters, in the child of a fork. `heap::counts::reset_all` must have used `GIVEN`
/// before.
pub fn reset_counts() {
    for count in RECEIVED.iter().chain(&GIVEN).chain(&WHOLE) {
        count.renew(0);
    }
}

/// Counts the end of a page that no heap counts. Returns the bytes of its blocks.
pub(super) fn note_end(page: &Meta) -> i64 {
    let (class, blocks) = (usize::from(page.class.get()), page.carved.get());
    RETURNED[class].fetch_add(u64::from(blocks), Relaxed);
    GIVEN[class].fetch_add(1, Relaxed);
    i64::from(blocks) * i64::from(page.block_size.get())
}

/// Counts a full page of a heap, all blocks of which other threads have freed.
pub(super) fn note_whole(page: &Meta) {
    let class = usize::from(page.class.get());
    RECEIVED[class].fetch_add(page.cap.get().into(), Relaxed);
    WHOLE[class].fetch_add(1, Relaxed);
}

/// Counts the end of a page as [`end_whole`](super::end_whole) does, for a heap that keeps it or
/// ends it itself. Returns the bytes of its blocks.
pub fn note_whole_end(page: &Meta) -> i64 {
    note_whole(page);
    note_end(page)
}
