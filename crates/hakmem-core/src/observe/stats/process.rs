//! Totals of the process.

use super::SYSCALLS;

/// One kind of system call.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats;
///
/// for call in stats::process().syscalls().filter(|call| call.calls > 0) {
///     println!("{}: {} times, {} of them failed", call.name, call.calls, call.failures);
/// }
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Syscall {
    /// Its name, as in strace. `pagemap` stands for the calls that read which memory is resident,
    /// `query` for those that ask for limits and sizes.
    pub name: &'static str,
    /// Times called.
    pub calls: u64,
    /// Times it failed.
    pub failures: u64,
    /// Nanoseconds in these calls; 0 unless `HAKMEM_TIMING=1`.
    pub nanos: u64,
}

/// Code that freed pointers which are not ours.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{Site, Snapshot};
///
/// let worst: Option<Site> = Snapshot::take().foreign_sites().max_by_key(|site| site.frees);
/// assert!(worst.is_none(), "this program frees no foreign pointer");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// The return address of the call.
    pub address: usize,
    /// Frees from there.
    pub frees: u64,
}

/// Totals of the process.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::stats::{self, Stats};
///
/// let Stats { allocations, frees, live_bytes, .. } = stats::process();
/// println!("{allocations} blocks out, {frees} back, {live_bytes} bytes live");
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Blocks allocated, of all sizes. Exact, except that blocks on the lists of other running
    /// threads count as allocated.
    pub allocations: u64,
    /// Blocks that came back. Exact, but for what other running threads freed of their own blocks
    /// and did not come across again.
    pub frees: u64,
    /// Of these, remote frees: sent by threads that do not hold the heap that owns the page. A
    /// block that stays with such a thread is none until the thread sends it.
    pub remote_frees: u64,
    /// Of these, in flight: their owners have not merged them yet.
    pub in_flight: u64,
    /// Allocations up to 64 KiB that found the heap's list empty; the others were list hits.
    pub refills: u64,
    /// Large blocks (over 64 KiB, up to 1 MiB) allocated.
    pub large_allocations: u64,
    /// Of these, from a heap's cache.
    pub large_hits: u64,
    /// Large blocks freed.
    pub large_frees: u64,
    /// Huge blocks (over 1 MiB) allocated.
    pub huge_allocations: u64,
    /// Of these, from the huge cache.
    pub huge_hits: u64,
    /// Huge blocks freed.
    pub huge_frees: u64,
    /// Bytes in the huge cache.
    pub huge_cached_bytes: u64,
    /// Bytes in live huge blocks.
    pub huge_live_bytes: u64,
    /// Bytes of all live blocks: the sum of the classes', of large blocks and huge blocks. Exact,
    /// but that blocks in the lists of other running threads count as live.
    pub live_bytes: u64,
    /// Bytes of blocks in pages with live blocks, and of larger allocations: no less than what is
    /// live.
    pub live_bytes_upper_bound: u64,
    /// The highest that `live_bytes_upper_bound` was: no less than the most that was live.
    pub peak_live_bytes_upper_bound: u64,
    /// Address space reserved.
    pub reserved_bytes: u64,
    /// Bytes committed: made accessible.
    pub committed_bytes: u64,
    /// Dirty bytes: free, and not given back to the system yet. Whole slots: a part of them may
    /// never have been touched, and not be resident.
    pub dirty_bytes: u64,
    /// Bytes purged so far: given back to the system. Whole slots, too.
    pub purged_bytes: u64,
    /// Frees of pointers that are not ours.
    pub foreign_frees: u64,
    /// Thread heaps made so far.
    pub heaps: u64,
    /// System calls by kind. Those that this system has not have no name.
    pub(super) syscalls: [Syscall; SYSCALLS],
}

impl Stats {
    /// System calls by kind, in the order of the report.
    ///
    /// ```
    /// # extern crate hakmem_core as hakmem;
    /// use hakmem::stats;
    ///
    /// let calls: u64 = stats::process().syscalls().map(|kind| kind.calls).sum();
    /// println!("{calls} system calls so far");
    /// ```
    pub fn syscalls(&self) -> impl Iterator<Item = &Syscall> {
        self.syscalls.iter().filter(|call| !call.name.is_empty())
    }
}
