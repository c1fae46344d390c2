//! Reads the gauges.

use crate::backend::{arena, held, segment};
use crate::heap::{Heap, all};
use crate::large::huge;
use crate::observe::stats::{Gauges, Snapshot};

/// See `stats::gauges`.
pub fn gauges() -> Gauges {
    let allocated = Snapshot::take().process().live_bytes;
    let held = held::bytes();
    let unused = (segment::expected_dirty_bytes() + huge::signed_cached_bytes()).max(0);
    let active = held.saturating_sub(unused.cast_unsigned()) as u64;
    let metadata = arena::metadata_bytes() as u64 + all::heaps_made() * size_of::<Heap>() as u64;
    let (reserved, committed) = arena::totals();
    let active = active.max(allocated);
    let resident = (held as u64).max(active) + metadata;
    let mapped = (committed as u64 + metadata).max(resident);
    let retained = reserved.saturating_sub(committed) as u64;
    Gauges { allocated, active, metadata, resident, mapped, retained }
}
