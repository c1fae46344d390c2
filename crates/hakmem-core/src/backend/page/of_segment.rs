//! Metadata of a segment. It lies in the metadata of the segment's first slot.

use crate::base::sync::{AtomicU8, AtomicU32, Ordering::Relaxed};
use crate::proto::run_bin::RunBin;
use crate::proto::slots::Slots;

/// Metadata of a segment.
#[repr(C)]
pub struct SegmentMeta {
    /// Which slots are claimed, and which are dirty.
    pub slots: Slots,
    /// When a slot last became DIRTY, in coarse milliseconds.
    pub stamp: AtomicU32,
    /// The bin under which the segment is listed, plus 1. Zero: none.
    pub bin: RunBin,
    /// What hakmem told the kernel about huge pages here: `UNTOLD`, `THP`, `NOT_THP` or `TRIED`.
    pub thp: AtomicU8,
}

/// hakmem told the kernel nothing: the system chooses.
pub const UNTOLD: u8 = 0;
/// hakmem asked for huge pages.
pub const THP: u8 = 1;
/// hakmem refused huge pages.
pub const NOT_THP: u8 = 2;
/// hakmem asked for huge pages, and counts the segment in `tried`.
pub const TRIED: u8 = 3;

impl SegmentMeta {
    /// True if hakmem asked for huge pages here.
    pub fn is_thp(&self) -> bool {
        matches!(self.thp.load(Relaxed), THP | TRIED)
    }
}
