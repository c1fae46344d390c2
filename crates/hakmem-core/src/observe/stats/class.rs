//! Figures of a size class.

use super::Snapshot;
use crate::backend::arena;
use crate::base::size_class::SIZES;
use crate::heap::counts::{self, Event};
use crate::heap::peak;
use crate::heap::span_of;
use crate::heap::sparse;
use crate::profile;

/// What happened to blocks of one size, in all heaps.
///
/// ```
/// use hakmem_core::{Hakmem, stats::Snapshot};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let blocks: Vec<Box<[u8; 1000]>> = (0..100).map(|_| Box::new([1; 1000])).collect();
/// let class = Snapshot::take().classes().find(|class| class.size >= 1000).unwrap();
/// assert!(class.live_bytes >= 100 * class.size);
/// # drop(blocks); }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Class {
    /// Bytes of a block.
    pub size: u64,
    /// Blocks handed out.
    pub allocations: u64,
    /// Blocks that came back. Those on their way to their owners are not among them: see `Stats::in_flight`.
    pub frees: u64,
    /// Of these, freed by other threads than those that have their pages.
    pub remote_frees: u64,
    /// Refills by freed blocks of a page, or of a hole in one.
    pub takes: u64,
    /// Refills by fresh blocks.
    pub carves: u64,
    /// Times a page was put aside because all its blocks were out.
    pub sleeps: u64,
    /// Times such a page was woken because enough of them came back.
    pub wakes: u64,
    /// Pages claimed from segments.
    pub new_pages: u64,
    /// Empty pages of their own that heaps made pages of this class again.
    pub retained_pages: u64,
    /// Pages given up empty.
    pub empty_pages: u64,
    /// Pages now.
    pub pages: u64,
    /// Pages now of which all blocks are out.
    pub asleep_pages: u64,
    /// Bytes of the pages.
    pub page_bytes: u64,
    /// Bytes of the blocks that have ever been on a list or out, in these pages: what was touched.
    pub carved_bytes: u64,
    /// Bytes of blocks that are out.
    pub live_bytes: u64,
    /// Bytes of blocks in being when the process's live bytes stood highest, to 6 %.
    pub peak_bytes: u64,
}

impl Class {
    /// Allocations that found the list empty.
    ///
    /// O(1).
    ///
    /// ```
    /// use hakmem_core::{Hakmem, stats::Snapshot};
    ///
    /// #[global_allocator]
    /// static ALLOCATOR: Hakmem = Hakmem::new();
    ///
    /// # fn main() {
    /// let blocks: Vec<Box<[u8; 1000]>> = (0..100).map(|_| Box::new([1; 1000])).collect();
    /// let class = Snapshot::take().classes().find(|class| class.size >= 1000).unwrap();
    /// assert!((1..=class.allocations).contains(&class.refills()));
    /// # drop(blocks); }
    /// ```
    pub fn refills(&self) -> u64 {
        self.takes + self.carves
    }

    /// Allocations served from a list. With a list's first block, which the refill itself hands out, they are all there are.
    ///
    /// O(1).
    ///
    /// ```
    /// use hakmem_core::{Hakmem, stats::Snapshot};
    ///
    /// #[global_allocator]
    /// static ALLOCATOR: Hakmem = Hakmem::new();
    ///
    /// # fn main() {
    /// let blocks: Vec<Box<[u8; 1000]>> = (0..100).map(|_| Box::new([1; 1000])).collect();
    /// let class = Snapshot::take().classes().find(|class| class.size >= 1000).unwrap();
    /// assert_eq!(class.list_hits() + class.refills(), class.allocations);
    /// # drop(blocks); }
    /// ```
    pub fn list_hits(&self) -> u64 {
        self.allocations.saturating_sub(self.refills())
    }

    /// Bytes in pages of the class that are not in live blocks: what it holds, and others cannot use.
    ///
    /// O(1).
    ///
    /// ```
    /// use hakmem_core::{Hakmem, stats::Snapshot};
    ///
    /// #[global_allocator]
    /// static ALLOCATOR: Hakmem = Hakmem::new();
    ///
    /// # fn main() {
    /// let blocks: Vec<Box<[u8; 1000]>> = (0..100).map(|_| Box::new([1; 1000])).collect();
    /// let class = Snapshot::take().classes().find(|class| class.size >= 1000).unwrap();
    /// assert_eq!(class.unused_bytes(), class.page_bytes - class.live_bytes);
    /// # drop(blocks); }
    /// ```
    pub fn unused_bytes(&self) -> u64 {
        self.page_bytes.saturating_sub(self.live_bytes)
    }
}

/// Blocks found freed, on lists and in pages given up.
pub fn frees_found(snapshot: &Snapshot, all: &counts::OfClass, class: usize) -> i64 {
    all.returned + (sparse::returned(class) + profile::returned(class) + snapshot.waiting[class]) as i64
}

#[inline(never)]
pub fn of(snapshot: &Snapshot, class: usize) -> Class {
    let all = counts::of_class(crate::heap::all::all_heaps(), class);
    let at = |what: Event| all.events[what as usize];
    let size = u64::from(SIZES[class]);
    let count = |n: i64| n.max(0) as u64;
    let existing = all.existing - (sparse::returned(class) + profile::returned(class)) as i64;
    let pages = count(all.pages - sparse::given(class) as i64);
    Class {
        size,
        allocations: at(Event::Handed).saturating_sub(snapshot.listed[class]),
        frees: count(frees_found(snapshot, &all, class)),
        remote_frees: at(Event::Received) + sparse::received(class),
        takes: at(Event::Takes),
        carves: at(Event::Carves),
        sleeps: at(Event::Sleeps),
        wakes: at(Event::Wakes),
        new_pages: at(Event::Claims),
        retained_pages: at(Event::Reuses),
        empty_pages: at(Event::Empties) + sparse::given(class),
        pages,
        asleep_pages: count(all.asleep),
        page_bytes: pages * u64::from(span_of(SIZES[class])) * arena::PAGE as u64,
        carved_bytes: count(existing) * size,
        live_bytes: count(existing - (snapshot.waiting[class] + snapshot.listed[class]) as i64) * size,
        peak_bytes: peak::of(class),
    }
}
