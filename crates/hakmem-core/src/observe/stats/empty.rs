//! Stands for `read` where hakmem does not serve: there is nothing to read.

use super::{Decision, FirstTouch, Gauges, Limit, ProgramHeap, Site, Snapshot, ThreadHeap};
use core::iter;

pub const SEGMENT_BYTES: usize = 2 << 20;
pub const SLOT_BYTES: usize = 64 << 10;
/// No call is counted, and no foreign free is seen.
pub const SYSCALLS: usize = 0;
pub const SITES: usize = 0;

pub fn take() -> Snapshot {
    Snapshot::empty()
}

pub fn take_from_outside() -> Snapshot {
    Snapshot::empty()
}

pub fn heaps() -> impl Iterator<Item = ThreadHeap> {
    iter::empty()
}

pub fn program_heaps() -> impl Iterator<Item = ProgramHeap> {
    iter::empty()
}

pub fn program_allocations() -> u64 {
    0
}

pub fn limit() -> Limit {
    Limit::default()
}

pub fn first_touch() -> FirstTouch {
    FirstTouch::default()
}

#[cfg(feature = "reports")]
pub fn dear() -> Option<super::Dear> {
    None
}

pub fn foreign_sites() -> impl Iterator<Item = Site> {
    iter::empty()
}

pub fn decisions() -> impl Iterator<Item = Decision> {
    iter::empty()
}

pub fn gauges() -> Gauges {
    Gauges::default()
}

pub fn decided() -> u64 {
    0
}

pub fn is_learning() -> bool {
    false
}

pub mod class {
    use super::super::{Class, Snapshot};
    use crate::base::size_class::SIZES;

    /// The sizes are in the table of classes, which is the same everywhere.
    pub fn of(_: &Snapshot, class: usize) -> Class {
        Class { size: u64::from(SIZES[class]), ..Class::default() }
    }
}

pub mod heap_walk {
    pub fn resident_bytes() -> u64 {
        0
    }
}

pub mod map {
    use super::super::map::SLOTS;
    use super::super::{Segment, Slot};
    use core::iter;

    /// No segment has one.
    pub enum Source {}

    pub fn slots(_: &Source) -> impl Iterator<Item = Slot> {
        iter::empty()
    }

    pub fn resident(_: usize) -> Option<[u8; SLOTS]> {
        None
    }

    pub fn each_segment(_: &mut dyn FnMut(&Segment)) {}

    pub fn each_segment_from_outside(_: &mut dyn FnMut(&Segment)) {}
}

pub mod process {
    use super::super::{Snapshot, Stats};

    pub fn of(_: &Snapshot) -> Stats {
        Stats::default()
    }
}
