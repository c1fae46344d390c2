//! Figures of a size class.

/// What happened to blocks of one size, in all heaps.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Hakmem, stats::Snapshot};
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
#[non_exhaustive]
pub struct Class {
    /// Bytes of a block.
    pub size: u64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Blocks freed, without those in flight: see `Stats::in_flight`.
    pub frees: u64,
    /// Of these, remote frees: sent by threads that do not hold the heap that owns the page.
    pub remote_frees: u64,
    /// Refills that took the free list of a page, or the blocks of a hole in it.
    pub takes: u64,
    /// Refills that carved blocks.
    pub carves: u64,
    /// Times a page became full: all its blocks were used.
    pub filled: u64,
    /// Times a full page went back into the queue: enough of its blocks were free again.
    pub unfulled: u64,
    /// Pages claimed from segments.
    pub new_pages: u64,
    /// Cached empty pages that heaps made pages of this class.
    pub cached_pages: u64,
    /// Pages given up empty.
    pub empty_pages: u64,
    /// Pages now.
    pub pages: u64,
    /// Full pages now: all their blocks are used.
    pub full_pages: u64,
    /// Bytes of the pages.
    pub page_bytes: u64,
    /// Bytes of the blocks that were carved in these pages, live or free: what was touched.
    pub carved_bytes: u64,
    /// Bytes of live blocks.
    pub live_bytes: u64,
    /// Carved bytes when the live bytes of the process were highest, within 6 %.
    pub peak_bytes: u64,
}

impl Class {
    /// Allocations that found the list empty.
    ///
    /// O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::{Hakmem, stats::Snapshot};
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

    /// Allocations served from a list. With a list's first block, which the refill itself hands
    /// out, they are all there are.
    ///
    /// O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::{Hakmem, stats::Snapshot};
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

    /// Bytes in pages of the class that are not in live blocks: what it holds, and others cannot
    /// use.
    ///
    /// O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::{Hakmem, stats::Snapshot};
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
