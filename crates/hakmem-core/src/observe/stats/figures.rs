//! The names of all figures. Reports, and the feature `serde`, take the names from here.

use super::{
    Class, Decision, FirstTouch, HeapUse, HeapWalk, Limit, ProgramHeap, SEGMENT_BYTES, Snapshot,
    Stats, Syscall, ThreadHeap,
};

/// A figure and its name.
pub type Named = (&'static str, u64);

impl Stats {
    /// All figures but the system calls.
    pub(crate) fn figures(&self) -> [Named; 22] {
        [
            ("allocations", self.allocations),
            ("frees", self.frees),
            ("remote_frees", self.remote_frees),
            ("in_flight", self.in_flight),
            ("refills", self.refills),
            ("large_allocations", self.large_allocations),
            ("large_hits", self.large_hits),
            ("large_frees", self.large_frees),
            ("huge_allocations", self.huge_allocations),
            ("huge_hits", self.huge_hits),
            ("huge_frees", self.huge_frees),
            ("huge_cached_bytes", self.huge_cached_bytes),
            ("huge_live_bytes", self.huge_live_bytes),
            ("live_bytes", self.live_bytes),
            ("live_bytes_upper_bound", self.live_bytes_upper_bound),
            ("peak_live_bytes_upper_bound", self.peak_live_bytes_upper_bound),
            ("reserved_bytes", self.reserved_bytes),
            ("committed_bytes", self.committed_bytes),
            ("dirty_bytes", self.dirty_bytes),
            ("purged_bytes", self.purged_bytes),
            ("foreign_frees", self.foreign_frees),
            ("heaps", self.heaps),
        ]
    }
}

impl Syscall {
    /// All figures but the name.
    pub(crate) fn figures(&self) -> [Named; 3] {
        [("calls", self.calls), ("failures", self.failures), ("nanos", self.nanos)]
    }
}

impl HeapWalk {
    pub(crate) fn figures(&self) -> [Named; 10] {
        [
            ("thp_bytes", self.thp_segments * SEGMENT_BYTES as u64),
            ("slotted_segments", self.slotted_segments),
            ("huge_segments", self.huge_segments),
            ("reserve_segments", self.reserve_segments),
            ("cached_segments", self.cached_segments),
            ("page_slots", self.page_slots),
            ("large_slots", self.large_slots),
            ("kept_slots", self.kept_slots),
            ("dirty_slots", self.dirty_slots),
            ("clean_slots", self.clean_slots),
        ]
    }
}

impl Limit {
    pub(crate) fn figures(&self) -> [Named; 3] {
        [
            ("held_bytes", self.held),
            ("hard_limit_bytes", self.hard.unwrap_or(0)),
            ("refused", self.refused),
        ]
    }
}

impl FirstTouch {
    pub(crate) fn figures(&self) -> [Named; 2] {
        [("system_page_ns", self.system_page_ns), ("huge_page_ns", self.huge_page_ns)]
    }
}

impl Snapshot {
    /// The figures of the process, without those that the system keeps. `stats` are this
    /// snapshot's.
    pub(crate) fn figures(&self, stats: &Stats) -> impl Iterator<Item = Named> {
        let others = [
            ("running_heaps", self.running_heaps()),
            ("learning", u64::from(super::is_learning())),
            ("decided", super::decided()),
            ("program_allocations", super::read::program_allocations()),
        ];
        let limit = super::read::limit().figures();
        let of_heap = self.heap_walk().figures();
        let touch = super::read::first_touch().figures();
        stats.figures().into_iter().chain(of_heap).chain(others).chain(limit).chain(touch)
    }

    /// The classes with an allocation, a free or a page.
    pub(crate) fn used_classes(&self) -> impl Iterator<Item = Class> {
        self.classes().filter(|class| class.allocations + class.frees + class.pages > 0)
    }
}

impl Class {
    /// All figures but the block size.
    pub(crate) fn figures(&self) -> [Named; 17] {
        [
            ("allocations", self.allocations),
            ("frees", self.frees),
            ("remote_frees", self.remote_frees),
            ("list_hits", self.list_hits()),
            ("takes", self.takes),
            ("carves", self.carves),
            ("filled", self.filled),
            ("unfulled", self.unfulled),
            ("new_pages", self.new_pages),
            ("cached_pages", self.cached_pages),
            ("empty_pages", self.empty_pages),
            ("pages", self.pages),
            ("full_pages", self.full_pages),
            ("page_bytes", self.page_bytes),
            ("carved_bytes", self.carved_bytes),
            ("live_bytes", self.live_bytes),
            ("peak_bytes", self.peak_bytes),
        ]
    }
}

impl ThreadHeap {
    pub(crate) fn figures(&self) -> [Named; 22] {
        [
            ("running", u64::from(self.state != HeapUse::Idle)),
            ("listed", self.listed),
            ("takes", self.takes),
            ("carves", self.carves),
            ("next_pages", self.next_pages),
            ("holes_filled", self.holes_filled),
            ("filled", self.filled),
            ("unfulled", self.unfulled),
            ("new_pages", self.new_pages),
            ("cached_pages", self.cached_pages),
            ("empty_pages", self.empty_pages),
            ("pages_parked", self.pages_parked),
            ("pages_unparked", self.pages_unparked),
            ("merges", self.merges),
            ("batches_received", self.batches_received),
            ("blocks_received", self.blocks_received),
            ("blocks_sent", self.blocks_sent),
            ("batches_sent", self.batches_sent),
            ("chains_sent", self.chains_sent),
            ("large_allocations", self.large_allocations),
            ("large_hits", self.large_hits),
            ("large_frees", self.large_frees),
        ]
    }
}

impl ProgramHeap {
    /// All figures but the name. A limit of 0 stands for none: a heap with such a limit is of no
    /// use.
    pub(crate) fn figures(&self) -> [Named; 9] {
        [
            ("dropped", u64::from(self.dropped)),
            ("live_bytes", self.live_bytes),
            ("peak_live_bytes", self.peak_live_bytes),
            ("limit_bytes", self.limit_bytes.unwrap_or(0)),
            ("allocations", self.allocations),
            ("frees", self.frees),
            ("refused", self.refused),
            ("held_bytes", self.held_bytes),
            ("reserved_bytes", self.reserved_bytes),
        ]
    }
}

impl Decision {
    /// All figures but the option.
    pub(crate) fn figures(&self) -> [Named; 10] {
        [
            ("at_ms", self.at_ms.into()),
            ("from", self.from.into()),
            ("to", self.to.into()),
            ("round_ms", self.round_ms.into()),
            ("from_fault_us", self.from_fault_us),
            ("from_hold_us", self.from_hold_us),
            ("to_fault_us", self.to_fault_us),
            ("to_hold_us", self.to_hold_us),
            ("from_rating", self.from_rating.unsigned_abs().into()),
            ("to_rating", self.to_rating.unsigned_abs().into()),
        ]
    }
}
