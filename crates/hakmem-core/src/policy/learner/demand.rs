//! How much of a memory was in use lately. A pure state machine: callers pass the levels, and say
//! when time passes.

/// Milliseconds of a bucket, the unit of time: about the time between two passes of the purge.
pub const BUCKET_MS: u32 = 125;
/// Buckets that are kept: twice as long as the longest candidate for the decay.
pub const BUCKETS: usize = 64;

/// The peak of each bucket of time, and the present level.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    peaks: [u32; BUCKETS],
    newest: usize,
    level: u32,
}

impl Demand {
    /// A memory of which nothing was ever used.
    pub const fn new() -> Self {
        Self { peaks: [0; BUCKETS], newest: 0, level: 0 }
    }

    /// KiB in use now.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Notes that `level` KiB are in use, and that `high` KiB were in between.
    pub fn note(&mut self, level: u32, high: u32) {
        self.level = level;
        let peak = &mut self.peaks[self.newest];
        *peak = high.max(*peak);
    }

    /// Notes that the time of a bucket has passed.
    pub fn pass(&mut self) {
        self.newest = (self.newest + 1) % BUCKETS;
        self.peaks[self.newest] = self.level;
    }

    /// The peak of the last `ms` milliseconds, rounded up to buckets.
    pub fn peak_within(&self, ms: u32) -> u32 {
        let n = (ms.div_ceil(BUCKET_MS) as usize).clamp(1, BUCKETS);
        (0..n)
            .map(|i| self.peaks[(self.newest + BUCKETS - i) % BUCKETS])
            .max()
            .unwrap_or(self.level)
    }
}
