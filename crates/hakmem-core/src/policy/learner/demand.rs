//! What a memory had in use, lately.

/// Milliseconds that are told apart: about the time between two passes of the purge.
pub const BUCKET_MS: u32 = 125;
/// Buckets that are remembered: twice as long as any candidate for the decay.
pub const BUCKETS: usize = 64;

/// The peak of each bucket of time, and the level now.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    peaks: [u32; BUCKETS],
    newest: usize,
    level: u32,
}

impl Demand {
    /// Nothing, ever.
    pub const fn new() -> Self {
        Self { peaks: [0; BUCKETS], newest: 0, level: 0 }
    }

    /// KiB in use now.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// `level` KiB are in use, and `high` were.
    pub fn note(&mut self, level: u32, high: u32) {
        self.level = level;
        let peak = &mut self.peaks[self.newest];
        *peak = high.max(*peak);
    }

    /// The time of a bucket passes.
    pub fn pass(&mut self) {
        self.newest = (self.newest + 1) % BUCKETS;
        self.peaks[self.newest] = self.level;
    }

    /// The most that was in use in the last `ms`, rounded up to buckets.
    pub fn peak_within(&self, ms: u32) -> u32 {
        let n = (ms.div_ceil(BUCKET_MS) as usize).clamp(1, BUCKETS);
        (0..n).map(|i| self.peaks[(self.newest + BUCKETS - i) % BUCKETS]).max().unwrap_or(self.level)
    }
}
