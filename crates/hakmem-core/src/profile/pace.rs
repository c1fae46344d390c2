//! How far a heap's interval is stretched. So a thread that allocates gigabytes a second does not
//! spend its time on samples.
//!
//! The pace is computed after `WINDOW` samples, or at the first sample after the time in which
//! `MOST` allows so many. A heap may first take `BURST` samples that it did not take in the time
//! before. Then the new power of two follows from the number of samples that the plain interval
//! would have given. It depends only on the past. So the estimate stays unbiased, if each sample
//! counts by the interval that it was drawn with.

use core::cell::Cell;

/// The most samples of one heap in a second. A sample takes 2 to 4 µs, and pushes lines out of the
/// caches: half a per cent of its thread's time. The samples of one second give an estimate that is
/// right to 3 %.
const MOST: u64 = 1_000;
/// The most samples that a heap saves up. A program that reads its data in a moment is profiled by
/// so many, which is right to 5 %. They take 1 to 2 ms. If it goes on as fast, the samples after
/// them have longer intervals and decide: 580 samples in all had an error of 14 %.
const BURST: u32 = 500;
/// Samples after which the rate is known well enough, to a sixth.
const WINDOW: u32 = 32;
const NS_EACH: u64 = 1_000_000_000 / MOST;
/// The largest power of two by which the interval is stretched.
const LONGEST: u32 = 10;

/// The pace of one heap. All zero bytes are a valid one.
pub struct Pace {
    shift: Cell<u32>,
    /// When the window began, and samples since.
    since: Cell<u64>,
    taken: Cell<u32>,
    /// Samples that are saved up.
    spare: Cell<u32>,
}

impl Pace {
    /// A pace with the plain interval.
    #[cfg(test)]
    pub const fn new() -> Self {
        Self { shift: Cell::new(0), since: Cell::new(0), taken: Cell::new(0), spare: Cell::new(0) }
    }

    #[cfg(test)]
    pub fn set_shift(&self, shift: u32) {
        self.shift.set(shift);
    }

    /// The interval to draw with is the plain one times two to the power of this.
    pub fn shift(&self) -> u32 {
        self.shift.get()
    }

    /// Counts a sample. Reads the clock, in nanoseconds, once in `WINDOW` samples; while the
    /// interval is stretched it reads it each time, as samples may then be far apart. True: from
    /// now on the interval is stretched less.
    pub fn took(&self, now: impl FnOnce() -> u64) -> bool {
        let taken = self.taken.get() + 1;
        self.taken.set(taken);
        (taken >= WINDOW || self.shift() > 0) && self.look(now())
    }

    /// Computes the shift anew if the window is over. True: it is less than before.
    pub fn look(&self, now: u64) -> bool {
        let (taken, elapsed) = (self.taken.get(), now.saturating_sub(self.since.get()));
        if taken < WINDOW && elapsed < u64::from(WINDOW) * NS_EACH {
            return false;
        }
        let plain = u64::from(taken) << self.shift();
        let may_take = u64::from(self.spare.get()) + elapsed / NS_EACH;
        let spare = may_take.saturating_sub(u64::from(taken)).min(u64::from(BURST)) as u32;
        self.spare.set(spare);
        let has_saved = self.shift() == 0 || spare >= BURST / 2;
        let shift = if plain <= may_take && has_saved {
            0
        } else {
            let too_many = plain * NS_EACH / elapsed.max(1);
            (u64::BITS - too_many.leading_zeros()).min(LONGEST)
        };
        self.since.set(now);
        self.taken.set(0);
        self.shift.replace(shift) > shift
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;

    /// At the plain interval, `count` samples would come at distances of `apart` nanoseconds.
    /// Returns how many come.
    fn run(pace: &Pace, now: &mut u64, apart: u64, count: u64) -> u64 {
        let (end, mut taken) = (*now + apart * count, 0);
        while *now < end {
            *now += apart << pace.shift();
            pace.took(|| *now);
            taken += 1;
        }
        taken
    }

    #[test]
    fn the_rate_is_bounded_and_comes_back() {
        let (pace, mut now) = (Pace::new(), 1 << 40);
        run(&pace, &mut now, NS_EACH * 3 / 2, 1000);
        assert_eq!(pace.shift(), 0, "slower than the bound");
        for (apart, shift) in
            [(NS_EACH / 3, 2), (NS_EACH / 20, 5), (NS_EACH / 5, 3), (NS_EACH / 10_000, LONGEST)]
        {
            // It goes on for some time with what it saves up.
            let until = now + (1 << 34);
            while now < until && pace.shift() != shift {
                run(&pace, &mut now, apart, 1 << 9);
            }
            assert_eq!(pace.shift(), shift, "{apart}");
            let (start, taken) = (now, run(&pace, &mut now, apart, 1 << 20));
            let most = (now - start) / NS_EACH + u64::from(BURST + WINDOW);
            let is_bounded = shift < LONGEST;
            assert!(!is_bounded || taken <= most * 101 / 100, "{apart}: {taken} of {most}");
        }
        assert!(pace.took(|| now + (1 << 36)), "one after a long time is enough");
        assert_eq!(pace.shift(), 0);
    }

    #[test]
    fn a_burst_is_bounded_after_what_was_saved_up() {
        let (pace, mut now) = (Pace::new(), 1 << 40);
        // One second, in which the plain interval would give 100,000 samples.
        let taken = run(&pace, &mut now, 10_000, 100_000);
        let most = MOST + u64::from(BURST + 2 * WINDOW);
        assert!((MOST / 2..most).contains(&taken), "{taken}");
    }

    /// 200 MB in 8 ms, every second.
    #[test]
    fn short_bursts_keep_the_plain_interval() {
        let (pace, mut now) = (Pace::new(), 1 << 40);
        for _ in 0..10 {
            assert_eq!(run(&pace, &mut now, 20_000, 400), 400);
            now += 1 << 30;
        }
    }

    #[test]
    fn a_window_is_over_with_its_last_sample_or_its_last_moment() {
        let pace = Pace::new();
        assert!((1..WINDOW).all(|_| !pace.took(|| 0)) && pace.shift() == 0);
        assert!(!pace.took(|| 0), "it is stretched more");
        assert_eq!(pace.shift(), LONGEST);
        let end = u64::from(WINDOW) * NS_EACH;
        assert!(!pace.took(|| end - 1) && pace.shift() == LONGEST);
        // Two samples, each for 2^10 plain ones, in the time of 32: 64 times too many.
        assert!(pace.took(|| end));
        assert_eq!(pace.shift(), 7);
        pace.set_shift(0);
        assert!((1..WINDOW).all(|_| !pace.took(|| 0)));
        assert!(!pace.took(|| 1 << 40) && pace.shift() == 0, "it stays as it is");
    }

    #[test]
    fn the_clock_is_seldom_looked_at() {
        let pace = Pace::new();
        let looks = (0..3200u64).filter(|i| {
            let mut looked = false;
            pace.took(|| {
                looked = true;
                i << 30
            });
            looked
        });
        assert_eq!(looks.count(), 100);
    }
}
