//! What the process has done so far, read without allocating.

use crate::size_class::CLASSES;
use crate::{arena, foreign, large, os, purge, sparse, thread, usage, whale};

/// One kind of system call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Syscall {
    /// Its name, as in strace; "query" stands for all that only ask for limits and sizes.
    pub name: &'static str,
    /// Times called.
    pub calls: u64,
    /// Times it failed.
    pub failures: u64,
    /// Nanoseconds inside; 0 unless `HAKMEM_TIMING=1`.
    pub nanos: u64,
}

/// Kinds of system calls that are counted.
pub const SYSCALLS: usize = os::KINDS;

/// Totals of the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Blocks handed out. Exact, but that blocks in the lists of other running threads count as handed out.
    pub allocations: u64,
    /// Blocks that came back, as far as has been noticed: where a page's list is taken, or the page given up.
    pub frees: u64,
    /// Bytes of blocks in pages with live blocks, and of larger allocations: an upper bound of what is live.
    pub live_bytes: u64,
    /// The highest that `live_bytes` was.
    pub peak_live_bytes: u64,
    /// Address space reserved.
    pub reserved_bytes: u64,
    /// Bytes made accessible.
    pub committed_bytes: u64,
    /// Free bytes that the system has not got back yet.
    pub dirty_bytes: u64,
    /// Bytes given back so far, in total.
    pub purged_bytes: u64,
    /// Frees of pointers that are not ours.
    pub foreign_frees: u64,
    /// Thread heaps ever made.
    pub heaps: u64,
    /// System calls by kind.
    pub syscalls: [Syscall; SYSCALLS],
}

/// Takes a snapshot. O(heaps × classes + blocks in lists). Other threads may go on meanwhile; what they do is counted
/// in part.
pub fn process() -> Stats {
    let own = thread::front();
    let (mut handed, mut returned) = (0u64, 0i64);
    for heap in thread::all_heaps() {
        // Another thread's lists change under us; an idle heap's are empty.
        let is_own = core::ptr::eq(&heap.front, own);
        handed = handed.wrapping_add(heap.large_handed.get());
        returned += heap.large_returned.get() as i64;
        if is_own {
            heap.report_live();
        }
        for (class, counts) in heap.counts.iter().enumerate() {
            let unused = if is_own { heap.listed(class) } else { 0 };
            handed = handed.wrapping_add(counts.handed.get()).wrapping_sub(unused);
            returned += counts.returned.get();
        }
    }
    let set_aside: u64 = (0..CLASSES).map(sparse::returned).sum();
    let (whale_handed, whale_returned, _) = whale::counts();
    let (live, peak) = usage::live();
    let (reserved, committed) = arena::totals();
    let syscall = |i| {
        let (name, calls, failures, nanos) = os::count(i);
        Syscall { name, calls, failures, nanos }
    };
    Stats {
        allocations: handed + whale_handed,
        frees: (returned + set_aside as i64).max(0) as u64 + large::stray_frees() + whale_returned,
        live_bytes: live,
        peak_live_bytes: peak,
        reserved_bytes: reserved as u64,
        committed_bytes: committed as u64,
        dirty_bytes: purge::idle_bytes() as u64,
        purged_bytes: purge::purged_bytes(),
        foreign_frees: foreign::count(),
        heaps: thread::heaps_made(),
        syscalls: core::array::from_fn(syscall),
    }
}
