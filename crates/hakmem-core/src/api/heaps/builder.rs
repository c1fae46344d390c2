//! A [`Heap`] that begins: its name and its limit.

use super::Heap;
use crate::program::registry;

/// A heap that begins: see [`Heap::builder`].
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Heap, heaps::Builder};
///
/// const SMALL: Builder = Heap::builder().limit(1 << 20);
/// let (one, other) = (SMALL.name("one").build(), SMALL.name("other").build());
/// # drop((one, other));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Builder<'a> {
    pub(super) name: &'a str,
    pub(super) limit: Option<usize>,
}

impl<'a> Builder<'a> {
    /// The name: see [`stats::ProgramHeap::name`](crate::stats::ProgramHeap::name). O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::builder().name("cache").build();
    /// # drop(heap);
    /// ```
    pub const fn name(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    /// The most live bytes. O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::builder().limit(4096).build();
    /// # if hakmem_core::is_active() {
    /// assert_eq!(heap.stats().limit_bytes, Some(4096));
    /// # }
    /// ```
    pub const fn limit(self, bytes: usize) -> Self {
        Self { limit: Some(bytes), ..self }
    }

    /// Makes the heap: see [`Heap::new`].
    ///
    /// O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::builder().build();
    /// # drop(heap);
    /// ```
    pub fn build(self) -> Heap {
        Heap { heap: registry::make(self.name, self.limit) }
    }
}
