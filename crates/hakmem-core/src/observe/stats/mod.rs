//! What the process has done so far. Reading the figures allocates nothing.
//!
//! The fast paths count nothing. The totals follow from the lists that change hands on slow paths
//! (`heap::counts`). [`Snapshot::take`] adds the blocks on the lists that it may read: those of the
//! calling thread, of heaps without a thread, and of parked pages.
//!
//! So totals are exact if no other thread runs. If others run:
//!
//! - Blocks on the lists of such a thread count as allocated.
//! - Blocks that such a thread freed into its own pages do not count as freed until its heap puts
//!   them on a list again, or gives their page up. Those that it freed to its heap's list do.
//! - A figure may be less than at the last look, by some hundred for each of these threads: its
//!   heap was moving frees of its lists to the counters.
//! - Blocks that such a thread freed for other heaps count as freed.
//! - The figures are read one after another. What other threads do meanwhile is in some of them.
//!
//! The child of a fork counts from zero. Its frees include the blocks that its parent freed and
//! that wait in pages.

mod class;
#[cfg(any(feature = "serde", all(feature = "reports", not(any(miri, shuttle)))))]
mod figures;
mod gauges;
mod heap;
mod heap_walk;
mod map;
mod process;
#[cfg(ported)]
mod read;
#[cfg(not(ported))]
#[path = "empty.rs"]
mod read;
#[cfg(feature = "serde")]
mod serialize;
#[cfg(ported)]
mod view;

pub use crate::policy::learner::{Decision, What};
pub use crate::types::program_heap::{HeapName, ProgramHeap};
pub use class::Class;
#[cfg(all(feature = "reports", not(any(miri, shuttle))))]
pub(crate) use figures::Named;
pub use gauges::{Gauges, gauges};
pub use heap::{HeapUse, ThreadHeap};
pub use heap_walk::HeapWalk;
pub use map::{
    Content, Huge, Page, PageState, Segment, Slot, each_segment, each_segment_from_outside,
};
pub use process::{Site, Stats, Syscall};

use core::fmt;

use crate::base::size_class::CLASSES as N;

/// Number of size classes.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Snapshot};
///
/// assert_eq!(Snapshot::take().classes().count(), stats::CLASSES);
/// ```
pub const CLASSES: usize = N;
/// Kinds of system calls that are counted, also those that this system has not.
const SYSCALLS: usize = read::SYSCALLS;
/// Call sites of foreign frees that are told apart.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Snapshot};
///
/// assert!(Snapshot::take().foreign_sites().count() <= stats::SITES);
/// ```
pub const SITES: usize = read::SITES;
/// Bytes of a slot: see [`HeapWalk`].
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Snapshot};
///
/// let bytes = Snapshot::take().heap_walk().large_slots * stats::SLOT_BYTES as u64;
/// println!("large blocks have {bytes} bytes");
/// ```
pub const SLOT_BYTES: usize = read::SLOT_BYTES;
/// Bytes of a segment.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats;
///
/// assert_eq!(stats::SEGMENT_BYTES / stats::SLOT_BYTES, 32, "slots in a segment");
/// ```
pub const SEGMENT_BYTES: usize = read::SEGMENT_BYTES;

/// Blocks, bytes and pages at one moment. Other figures are read when they are asked for.
///
/// It has 2.5 KiB.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::Snapshot;
///
/// let text = format!("{:?}", Snapshot::take());
/// assert!(text.starts_with("Snapshot { process: Stats { allocations: "));
/// ```
pub struct Snapshot {
    /// The blocks and pages of each class.
    blocks: [Blocks; N],
    /// Heaps of running threads, whose lists could not be read.
    running: u64,
    heap_walk: HeapWalk,
}

/// The hard limit of the process, `HARD_LIMIT_MIB`, and what it has refused.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats;
///
/// let limit = stats::limit();
/// if let Some(hard) = limit.hard {
///     println!("{} of {hard} bytes, {} requests refused", limit.held, limit.refused);
/// }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// Bytes that count: memory for blocks that may be resident, in use or free.
    pub held: u64,
    /// The limit, in bytes. None: there is none.
    pub hard: Option<u64>,
    /// Requests that failed because of it.
    pub refused: u64,
}

/// What the first touch of fresh memory costs: the means in ns. 0: too few were seen.
#[derive(Clone, Copy, Default)]
#[cfg_attr(
    not(any(feature = "serde", feature = "reports")),
    allow(dead_code, reason = "figures of reports")
)]
pub(crate) struct FirstTouch {
    pub system_page_ns: u64,
    pub huge_page_ns: u64,
}

/// The figures of a class that a pass of the purge moves from one counter to another. They are read
/// while no pass runs.
#[derive(Debug, Clone, Copy, Default)]
struct Blocks {
    allocations: u64,
    /// Blocks that were found freed: on lists, in pages, and in pages that were given up. Below 0
    /// for a moment, if other threads free meanwhile.
    frees: i64,
    /// Remote frees that were merged.
    remote_frees: u64,
    pages: u64,
    carved: u64,
    live: u64,
}

impl Snapshot {
    /// Takes a snapshot. Waits for a pass of the purge, if there is one, up to half a second.
    /// O(heaps × classes + slots in use + blocks in lists).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::Snapshot;
    ///
    /// let snapshot = Snapshot::take();
    /// let of_all: u64 = snapshot.classes().map(|class| class.live_bytes).sum();
    /// assert!(of_all <= snapshot.process().live_bytes);
    /// ```
    #[inline(never)]
    pub fn take() -> Self {
        read::take()
    }

    /// Takes a snapshot of counters alone, in whatever state this thread is: for signal handlers.
    /// Takes no lock.
    ///
    /// O(heaps × classes + slots in use).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::Snapshot;
    ///
    /// // What a signal handler may do.
    /// let allocations = Snapshot::take_from_outside().process().allocations;
    /// # let _ = allocations;
    /// ```
    #[inline(never)]
    pub fn take_from_outside() -> Self {
        read::take_from_outside()
    }

    fn empty() -> Self {
        let blocks = [Blocks::default(); N];
        Self { blocks, running: 0, heap_walk: HeapWalk::default() }
    }

    /// Heaps of other threads that are running: the totals of blocks are exact but for these.
    ///
    /// O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::Snapshot;
    ///
    /// let snapshot = Snapshot::take();
    /// if snapshot.running_heaps() == 0 {
    ///     println!("exactly {} bytes are live", snapshot.process().live_bytes);
    /// }
    /// ```
    pub fn running_heaps(&self) -> u64 {
        self.running
    }

    /// What the slots and segments are used for.
    ///
    /// O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::Snapshot;
    ///
    /// println!("{} slots hold small blocks", Snapshot::take().heap_walk().page_slots);
    /// ```
    pub fn heap_walk(&self) -> &HeapWalk {
        &self.heap_walk
    }

    /// The figures of a class, by its number. O(heaps).
    ///
    /// # Panics
    ///
    /// If `class` is not below [`CLASSES`].
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::Snapshot;
    ///
    /// let smallest = Snapshot::take().class(0);
    /// println!("{} blocks of {} bytes so far", smallest.allocations, smallest.size);
    /// ```
    pub fn class(&self, class: usize) -> Class {
        read::class::of(self, class)
    }

    /// The figures of every class, smallest blocks first.
    ///
    /// O(heaps) for each class.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::Snapshot;
    ///
    /// let sizes: Vec<u64> = Snapshot::take().classes().map(|class| class.size).collect();
    /// assert!(sizes.is_sorted());
    /// ```
    pub fn classes(&self) -> impl Iterator<Item = Class> {
        (0..N).map(|class| self.class(class))
    }

    /// The figures of every thread heap there ever was, oldest last.
    ///
    /// O(classes) for each heap.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::{HeapUse, Snapshot};
    ///
    /// let idle = Snapshot::take().heaps().filter(|heap| heap.state == HeapUse::Idle).count();
    /// println!("{idle} heaps wait for a thread");
    /// ```
    pub fn heaps(&self) -> impl Iterator<Item = ThreadHeap> {
        read::heaps()
    }

    /// The figures of every heap that the program made and that has not ended, newest first.
    ///
    /// O(1) for each.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::{Heap, stats::Snapshot};
    ///
    /// let cache = Heap::named("cache");
    /// let names = Snapshot::take().program_heaps().filter(|heap| heap.name() == "cache").count();
    /// # if hakmem_core::is_active() {
    /// assert_eq!(names, 1);
    /// # }
    /// # drop(cache);
    /// ```
    pub fn program_heaps(&self) -> impl Iterator<Item = ProgramHeap> {
        read::program_heaps()
    }

    /// The totals of the process. O(heaps × classes).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::Snapshot;
    ///
    /// let stats = Snapshot::take().process();
    /// assert!(stats.committed_bytes <= stats.reserved_bytes);
    /// ```
    pub fn process(&self) -> Stats {
        read::process::of(self)
    }

    /// Call sites that freed foreign pointers, the first that were seen.
    ///
    /// At most [`SITES`] of them.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats::Snapshot;
    ///
    /// for site in Snapshot::take().foreign_sites() {
    ///     println!("{} foreign frees from {:#x}", site.frees, site.address);
    /// }
    /// ```
    pub fn foreign_sites(&self) -> impl Iterator<Item = Site> {
        read::foreign_sites()
    }
}

/// The totals, and what the slots and segments are used for. As [`Snapshot::process`].
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Snapshot");
        fields.field("process", &self.process()).field("running_heaps", &self.running);
        fields.field("heap_walk", &self.heap_walk).finish_non_exhaustive()
    }
}

/// What mode `learn` has decided last, oldest first; up to 64.
///
/// O(1) for each.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats;
///
/// for decision in stats::decisions() {
///     println!("{}: {} instead of {}", decision.what.name(), decision.to, decision.from);
/// }
/// ```
pub fn decisions() -> impl Iterator<Item = Decision> {
    read::decisions()
}

/// Whether the mode is `learn`.
///
/// O(1).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{options, stats};
///
/// assert!(!stats::is_learning());
/// options::set("MODE", "learn")?;
/// assert!(stats::is_learning());
/// # Ok::<(), options::Error>(())
/// ```
pub fn is_learning() -> bool {
    read::is_learning()
}

/// How many decisions there were so far.
///
/// More than [`decisions`] has, if there were more than 64. O(1).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats;
///
/// assert_eq!(stats::decided(), 0, "the mode is not `learn`");
/// ```
pub fn decided() -> u64 {
    read::decided()
}

/// Reads the hard limit, what is held of it, and what it has refused.
///
/// O(1). Where hakmem does not serve, there is no limit, and the figures are 0.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{options, stats};
///
/// assert_eq!(stats::limit().hard, None);
/// options::set("HARD_LIMIT_MIB", "512")?;
/// # if hakmem::is_active() {
/// assert_eq!(stats::limit().hard, Some(512 << 20));
/// # }
/// # Ok::<(), options::Error>(())
/// ```
pub fn limit() -> Limit {
    read::limit()
}

/// What is dear on this machine: see `backend::first_touch`.
#[cfg(feature = "reports")]
pub(crate) enum Dear {
    SystemPages,
    HugePages,
}

/// What the first touch of fresh memory costs, if more or less of it asks for huge pages because of
/// that. O(1).
#[cfg(feature = "reports")]
pub(crate) fn dear_first_touch() -> Option<(FirstTouch, Dear)> {
    read::dear().map(|dear| (read::first_touch(), dear))
}

/// The totals of the process: [`Snapshot::process`].
///
/// Takes a snapshot: who wants more than the totals takes one and asks it.
/// O(heaps × classes + slots in use).
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Hakmem, stats};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let before = stats::process().live_bytes;
/// let data = vec![1u8; 1 << 20];
/// assert!(stats::process().live_bytes >= before + (1 << 20));
/// # drop(data); }
/// ```
pub fn process() -> Stats {
    Snapshot::take().process()
}

/// Bytes of the arenas that are resident: asks the system about each segment in use. Of more than 8
/// GiB a part is asked for, and the rest estimated. A system call for each segment.
///
/// 0 if the system does not say.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Hakmem, stats};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let data = vec![1u8; 8 << 20];
/// assert!(stats::resident_bytes() >= 8 << 20);
/// # drop(data); }
/// ```
pub fn resident_bytes() -> u64 {
    read::heap_walk::resident_bytes()
}
