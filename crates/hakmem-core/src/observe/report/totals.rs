//! The figures in glibc's terms, for mallinfo2 and malloc_info.

use crate::observe::stats::{Class, Snapshot, Stats};

/// What mallinfo2 and malloc_info say of the process, in bytes if not said otherwise. Huge blocks
/// take the place of glibc's mapped blocks. They count in `huge` alone. So a program can add both.
pub struct Totals {
    /// Committed, without huge blocks.
    pub committed: u64,
    /// In live blocks, without huge blocks.
    pub live: u64,
    /// In live huge blocks: over 1 MiB.
    pub huge: u64,
    /// Number of live huge blocks.
    pub huge_blocks: u64,
    /// Number of free blocks up to 64 KiB, without those on the lists of other running threads.
    pub free_blocks: u64,
    /// The most that was in live blocks of all sizes: an upper bound.
    pub peak: u64,
    /// Dirty: malloc_trim could give it back.
    pub dirty: u64,
}

impl Totals {
    /// Of a snapshot and its `stats`.
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
