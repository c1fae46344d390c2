//! The figures of a program heap, and the error of its allocations.

use core::fmt;

/// The most bytes of the name of a program heap, and one.
pub const NAME_BYTES: usize = 32;

/// The name of a heap that the program made: up to 31 characters.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Heap, stats::HeapName};
///
/// let name: HeapName = Heap::named("tiles").stats().name;
/// assert_eq!(name.as_str(), if hakmem::is_active() { "tiles" } else { "" });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapName(pub(crate) [u8; NAME_BYTES]);

impl HeapName {
    /// The text. Empty: the heap has no name.
    ///
    /// O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// assert_eq!(Heap::new().stats().name.as_str(), "");
    /// ```
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        core::str::from_utf8(&self.0[..len]).unwrap_or_default()
    }
}

impl fmt::Debug for HeapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for HeapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The figures of a heap that the program made: see [`Heap`](crate::Heap).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Heap, stats::Snapshot};
///
/// let images = Heap::named("images");
/// for heap in Snapshot::take().program_heaps() {
///     println!("{}: {} bytes in {} blocks", heap.name(), heap.live_bytes, heap.blocks());
/// }
/// # drop(images);
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ProgramHeap {
    /// Its name: see [`ProgramHeap::name`].
    pub name: HeapName,
    /// True if the program dropped it, and blocks that a thread allocated in a scope of it are
    /// live.
    pub dropped: bool,
    /// Bytes of live blocks, each with the size of its class.
    pub live_bytes: u64,
    /// The most that `live_bytes` was.
    pub peak_live_bytes: u64,
    /// The most that it may be. None: there is no limit.
    pub limit_bytes: Option<u64>,
    /// Blocks allocated.
    pub allocations: u64,
    /// Blocks that came back: freed, or given back by a reset.
    pub frees: u64,
    /// Requests that would have passed the limit.
    pub refused: u64,
    /// Bytes of the memory that the heap has, with free blocks and what it reserved.
    pub held_bytes: u64,
    /// Bytes that it reserved.
    pub reserved_bytes: u64,
}

impl ProgramHeap {
    /// Its name. Empty: it has none. O(1).
    ///
    /// Reports have it too. So a character that is no printable ASCII, or means something in a form
    /// of report, is `_`, and what is beyond 31 characters is not there.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// let heap = Heap::named("tiles, \"new\"");
    /// let name = if hakmem::is_active() { "tiles_ _new_" } else { "" };
    /// assert_eq!(heap.stats().name(), name);
    /// ```
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Live blocks. O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::Heap;
    ///
    /// assert_eq!(Heap::new().stats().blocks(), 0);
    /// ```
    pub fn blocks(&self) -> u64 {
        self.allocations.saturating_sub(self.frees)
    }
}

/// A heap could not give a block: its limit does not allow it, or the system has no memory.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Heap, heaps::AllocError};
/// use core::alloc::Layout;
///
/// let plugin = Heap::builder().limit(1 << 20).build();
/// assert_eq!(plugin.allocate(Layout::new::<[u8; 2 << 20]>()), Err(AllocError));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocError;

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the heap's limit or the system allows no such block")
    }
}

impl core::error::Error for AllocError {}
