//! What each slot of each segment holds, for the map.

use super::read::map as read;
use super::{HeapName, SEGMENT_BYTES, SLOT_BYTES};

/// Slots in a segment.
pub(super) const SLOTS: usize = SEGMENT_BYTES / SLOT_BYTES;

/// A segment in use.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, SEGMENT_BYTES};
///
/// stats::each_segment(&mut |segment| assert_eq!(segment.address % SEGMENT_BYTES, 0));
/// ```
pub struct Segment {
    pub(super) source: read::Source,
    /// The address of its first byte.
    pub address: usize,
    /// True if it asks for THP.
    pub thp: bool,
    /// What a huge block has. None: it is divided into slots.
    pub huge: Option<Huge>,
    /// For a huge block: the heap of the program that has it.
    pub heap: Option<HeapName>,
}

/// The segments of a huge block.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, SEGMENT_BYTES};
///
/// let mut bytes = 0;
/// stats::each_segment(&mut |segment| {
///     if let Some(huge) = segment.huge {
///         bytes += huge.segments as usize * SEGMENT_BYTES;
///     }
/// });
/// println!("{bytes} bytes are in huge blocks");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Huge {
    /// Its segments.
    pub segments: u32,
    /// The segments behind it that are kept for it to grow into.
    pub reserve: u32,
}

/// A run of slots.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Slot};
///
/// stats::each_segment(&mut |segment| {
///     for Slot { first, span, .. } in segment.slots() {
///         assert!(first + span <= 32, "within its segment");
///     }
/// });
/// ```
#[non_exhaustive]
pub struct Slot {
    /// The number of its first slot.
    pub first: u32,
    /// Number of slots.
    pub span: u32,
    /// What the slots hold.
    pub content: Content,
    /// The heap of the program that has the page or the large block.
    pub heap: Option<HeapName>,
}

/// What slots hold.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Content};
///
/// let mut large = 0;
/// stats::each_segment(&mut |segment| {
///     large += segment.slots().filter(|slot| matches!(slot.content, Content::Large)).count();
/// });
/// println!("{large} large blocks");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Nothing. They take no memory.
    Clean,
    /// Nothing. Their memory has not been given back to the system.
    Dirty,
    /// Free memory that a heap or the huge cache keeps for later allocations.
    Kept,
    /// A large block.
    Large,
    /// Blocks of one size.
    Page(Page),
}

/// A page of blocks.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Content};
///
/// let mut bytes = 0;
/// stats::each_segment(&mut |segment| {
///     for slot in segment.slots() {
///         if let Content::Page(page) = slot.content {
///             bytes += u64::from(page.used) * u64::from(page.size);
///         }
///     }
/// });
/// println!("{bytes} bytes are in small blocks");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// Bytes of a block.
    pub size: u32,
    /// Blocks that fit.
    pub blocks: u32,
    /// Blocks that were carved.
    pub carved: u32,
    /// Blocks that are live, on the lists of other running threads, or in flight.
    pub used: u32,
    /// Where its owner keeps it.
    pub state: PageState,
}

/// Where the owner of a page keeps it.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Content, PageState};
///
/// let mut parked = 0;
/// stats::each_segment(&mut |segment| {
///     for slot in segment.slots() {
///         if let Content::Page(page) = slot.content {
///             parked += u32::from(page.state == PageState::Parked);
///         }
///     }
/// });
/// println!("{parked} pages have few used blocks");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageState {
    /// In the queue of its class: it may have free blocks.
    Queue,
    /// All its blocks are used.
    Full,
    /// It is empty, and the only one of its class.
    Retired,
    /// Few of its blocks are used, and it will be parked soon.
    Candidate,
    /// Few of its blocks are used, or threads share it.
    Parked,
    /// A heap of the program has it.
    Program,
}

impl PageState {
    /// The word for it in the map.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::PageState;
    ///
    /// assert_eq!(PageState::Parked.name(), "parked");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Full => "full",
            Self::Retired => "retired",
            Self::Candidate => "candidate",
            Self::Parked => "parked",
            Self::Program => "program",
        }
    }
}

impl Segment {
    /// Its slots; none for a huge block.
    ///
    /// O(1) for each.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats;
    ///
    /// stats::each_segment(&mut |segment| {
    ///     let slots: u32 = segment.slots().map(|slot| slot.span).sum();
    ///     assert_eq!(slots, if segment.huge.is_none() { 32 } else { 0 });
    /// });
    /// ```
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.huge.is_none().then(|| read::slots(&self.source)).into_iter().flatten()
    }

    /// Pieces of 4 KiB that are resident, in each slot of the segment's `nth`: 0 but for huge
    /// blocks. None: the system does not say.
    ///
    /// One system call.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats;
    ///
    /// stats::each_segment(&mut |segment| {
    ///     if let Some(pieces) = segment.resident(0) {
    ///         let pieces: u64 = pieces.iter().map(|&n| u64::from(n)).sum();
    ///         println!("{} KiB of {:#x} are resident", pieces * 4, segment.address);
    ///     }
    /// });
    /// ```
    pub fn resident(&self, nth: usize) -> Option<[u8; SLOTS]> {
        let offset = nth.checked_mul(SEGMENT_BYTES)?;
        read::resident(self.address.checked_add(offset)?)
    }
}

/// Calls `f` with each segment in use, by address within each arena. O(segments), and for each page
/// that the calling thread has, the blocks on its list of that class.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Hakmem, stats};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let data = vec![1u8; 100];
/// let mut segments = 0;
/// stats::each_segment(&mut |_| segments += 1);
/// assert!(segments > 0);
/// # drop(data); }
/// ```
pub fn each_segment(f: &mut dyn FnMut(&Segment)) {
    read::each_segment(f);
}

/// As [`each_segment`], in whatever state this thread is: for signal handlers. Takes no lock, and
/// looks into no list.
///
/// O(segments).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats;
///
/// // What a signal handler may do.
/// let mut segments = 0;
/// stats::each_segment_from_outside(&mut |_| segments += 1);
/// # let _ = segments;
/// ```
pub fn each_segment_from_outside(f: &mut dyn FnMut(&Segment)) {
    read::each_segment_from_outside(f);
}
