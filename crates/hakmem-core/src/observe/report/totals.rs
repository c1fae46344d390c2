//! The figures in glibc's terms.

use crate::observe::stats::{Class, Snapshot, Stats};

/// What mallinfo2 and malloc_info say of the process. Blocks over 1 MiB take the place of glibc's mapped ones: they are in
/// `huge` and nowhere else, so that a program which adds the two has all. Bytes unless said otherwise.
pub struct Totals {
    /// Made accessible, but for huge blocks.
    pub committed: u64,
    /// In live blocks, but for huge ones.
    pub live: u64,
    /// In live blocks over 1 MiB.
    pub huge: u64,
    /// Their number.
    pub huge_blocks: u64,
    /// Free blocks up to 64 KiB, as a number; those in the lists of other running threads could not be counted.
    pub free_blocks: u64,
    /// In live blocks of all sizes, at the most.
    pub peak: u64,
    /// What malloc_trim could give back.
    pub dirty: u64,
}

impl Totals {
    /// Of `stats`, and the rest of `snapshot`, which they are of.
    pub fn of(snapshot: &Snapshot, stats: &Stats) -> Self {
        let huge = stats.huge_live_bytes;
        let free = |c: Class| c.carved_bytes.saturating_sub(c.live_bytes) / c.size;
        Self {
            committed: stats.committed_bytes.saturating_sub(huge),
            live: stats.live_bytes.saturating_sub(huge),
            huge,
            huge_blocks: stats.huge_allocations.saturating_sub(stats.huge_frees),
            free_blocks: snapshot.classes().map(free).sum(),
            peak: stats.peak_live_bytes_upper_bound,
            dirty: stats.dirty_bytes,
        }
    }

    /// Committed and not live.
    pub fn free(&self) -> u64 {
        self.committed.saturating_sub(self.live)
    }
}
