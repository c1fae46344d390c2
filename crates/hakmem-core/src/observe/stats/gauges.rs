//! The six figures of memory that people graph.

use super::read;

/// The memory of the process that hakmem manages, in bytes, at one moment.
///
/// `allocated` ≤ `active` ≤ `resident` ≤ `mapped`, always. The figures are read one after another:
/// where other threads work meanwhile, a larger one is raised to the smaller one. The names are
/// those of jemalloc, and `docs/observability.md` says where the meanings differ.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Gauges};
///
/// let Gauges { allocated, active, resident, mapped, .. } = stats::gauges();
/// assert!(allocated <= active && active <= resident && resident <= mapped);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Bytes of live blocks: [`Stats::live_bytes`](super::Stats::live_bytes).
    pub allocated: u64,
    /// Bytes of the slots and segments that pages, large blocks and huge blocks have. What threads
    /// keep for their next blocks is among them.
    pub active: u64,
    /// Bytes of what hakmem knows of the memory: the metadata of segments that were ever in use,
    /// and the heaps. Without tables of the profile and of reports.
    pub metadata: u64,
    /// Bytes that may be in memory now: `active`, `metadata`, and free memory that was not given
    /// back yet. An upper bound. [`resident_bytes`](super::resident_bytes) asks the system instead.
    pub resident: u64,
    /// Bytes that are accessible: committed for blocks, and `metadata`.
    pub mapped: u64,
    /// Bytes of address space that are reserved and not accessible. They cost no memory.
    pub retained: u64,
}

impl Gauges {
    /// The gauges with their names, in the order of the fields. O(1).
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats;
    ///
    /// for (name, bytes) in stats::gauges().named() {
    ///     println!("{name} {bytes}");
    /// }
    /// ```
    pub const fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("allocated", self.allocated),
            ("active", self.active),
            ("metadata", self.metadata),
            ("resident", self.resident),
            ("mapped", self.mapped),
            ("retained", self.retained),
        ]
    }
}

/// Reads the gauges. `allocated` costs as much as [`Snapshot::take`](super::Snapshot::take):
/// O(heaps × classes + slots in use + blocks in lists). While a pass of the purge runs, it sleeps,
/// for half a second at most. The others are O(arenas). Allocates nothing. All are 0 where hakmem
/// does not serve.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Hakmem, stats};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let before = stats::gauges();
/// let data = vec![1u8; 8 << 20];
/// let now = stats::gauges();
/// # if hakmem_core::is_active() {
/// assert!(now.allocated >= before.allocated + (8 << 20));
/// # }
/// # drop(data); }
/// ```
pub fn gauges() -> Gauges {
    read::gauges()
}
