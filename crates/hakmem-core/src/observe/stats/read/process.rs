//! Reads the totals of the process.

use crate::backend::segment;
use crate::backend::{arena, foreign};
use crate::base::sync::Ordering::Relaxed;
use crate::base::usage;
use crate::heap;
use crate::heap::shared::SharedHeap;
use crate::large::huge;
use crate::observe::stats::{Snapshot, Stats, Syscall};
use crate::{large, os, program, purge};

#[inline(never)]
pub fn of(snapshot: &Snapshot) -> Stats {
    let mut s = Stats::default();
    let mut found = 0;
    for (class, blocks) in snapshot.classes().zip(&snapshot.blocks) {
        s.allocations += class.allocations;
        s.refills += class.refills();
        s.live_bytes += class.live_bytes;
        found += blocks.frees;
    }
    let received: u64 = snapshot.blocks.iter().map(|blocks| blocks.remote_frees).sum();
    s.remote_frees = heap::heapless_frees();
    s.large_frees = large::heapless_frees();
    for heap in snapshot.heaps() {
        s.remote_frees += heap.blocks_sent;
        s.large_allocations += heap.large_allocations;
        s.large_hits += heap.large_hits;
        s.large_frees += heap.large_frees;
    }
    s.in_flight = s.remote_frees.saturating_sub(received);
    (s.huge_allocations, s.huge_frees, s.huge_hits) = huge::counts();
    // What heaps keep counts as live in the books, and what they may keep as cached.
    let (mut kept, mut unused) = (0, 0);
    for heap in crate::heap::all::all_heaps().map(SharedHeap::huge) {
        s.huge_allocations += heap.hits.get();
        s.huge_hits += heap.hits.get();
        s.huge_frees += heap.puts.get();
        kept += heap.kept.load(Relaxed);
        unused += heap.allowed.load(Relaxed) - heap.kept.load(Relaxed);
    }
    // A remote free counts at once. The frees that were found contain it only once it was merged.
    let local = found - received as i64;
    s.frees = (local + s.remote_frees as i64).max(0) as u64 + s.large_frees + s.huge_frees;
    s.allocations += s.large_allocations + s.huge_allocations;
    s.huge_cached_bytes = (huge::cached_bytes() as u64).saturating_add_signed(-unused);
    s.huge_live_bytes = usage::huge().saturating_add_signed(-kept);
    let (told, peak) = usage::live();
    // What heaps of running threads have not added to the total yet, up to a MiB each.
    let untold: i64 = crate::heap::all::all_heaps().map(SharedHeap::unreported).sum();
    s.live_bytes_upper_bound = told.saturating_add_signed(untold - kept);
    s.peak_live_bytes_upper_bound = peak.max(s.live_bytes_upper_bound);
    s.live_bytes += program::bytes_in_pages();
    s.live_bytes += snapshot.heap_walk().large_slots * arena::SLOT as u64 + s.huge_live_bytes;
    let (reserved, committed) = arena::totals();
    (s.reserved_bytes, s.committed_bytes) = (reserved as u64, committed as u64);
    // Some of it the last pass of the purge has seen.
    let seen = segment::expected_dirty_bytes() - segment::signed_dirty_bytes();
    let untold: i64 = crate::heap::all::all_heaps().map(SharedHeap::untold_dirty_bytes).sum();
    let untold = untold - seen as i64;
    s.dirty_bytes = (purge::free_bytes() as u64).saturating_add_signed(untold - unused);
    s.purged_bytes = purge::purged_bytes();
    s.foreign_frees = foreign::count();
    s.heaps = heap::all::heaps_made();
    s.syscalls = core::array::from_fn(|i| {
        let (name, calls, failures, nanos) = os::count(i);
        Syscall { name, calls, failures, nanos }
    });
    s
}
