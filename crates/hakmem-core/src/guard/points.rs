//! When the next sample of a heap is due, for each class.
//!
//! A point is a number: what the heap's count of allocated blocks of the class will be. The caller
//! passes that count, modulo [`WRAP`], as `handed`. The distances are uniform, so that a program
//! cannot know them, with the option `GUARD_SAMPLE` as their mean.

use crate::base::random;
use crate::base::renew::Renew;
use crate::base::size_class::CLASSES;
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicU32, AtomicU64};
use crate::{os, policy};
use core::cell::Cell;

/// Counts of blocks are modulo this.
pub const WRAP: u32 = 1 << 31;

/// Rises when all heaps count anew.
static RUN: AtomicU32 = AtomicU32::new(1);
static RANDOM: AtomicU64 = AtomicU64::new(0);

/// The next samples of a heap. All zero bytes are valid: everything is to be drawn.
pub struct Points {
    run: Cell<u32>,
    /// The option's value for which the points were drawn.
    every: Cell<u32>,
    due_at: [Cell<u32>; CLASSES],
}

/// A random number, by splitmix64 from a random start.
pub fn random() -> u64 {
    if RANDOM.load(Relaxed) == 0 {
        let seed = os::random()[0] as u64 | 1;
        let _ = RANDOM.compare_exchange(0, seed, Relaxed, Relaxed);
    }
    random::mixed(RANDOM.fetch_add(random::STEP, Relaxed))
}

/// For the child of a fork, where heaps count anew.
pub fn after_fork() {
    RUN.fetch_add(1, Relaxed);
    RANDOM.renew(0);
}

impl Points {
    /// Points that are to be drawn.
    #[cfg(test)]
    pub const fn new() -> Self {
        Self { run: Cell::new(0), every: Cell::new(0), due_at: [const { Cell::new(0) }; CLASSES] }
    }

    fn is_current(&self) -> bool {
        self.run.get() == RUN.load(Relaxed) && self.every.get() == policy::GUARD_SAMPLE.get()
    }

    /// Blocks of `class` before the next sample. 0: the next block is one, or points are to be
    /// drawn. After a list that went `n` blocks beyond the sample this is `WRAP - n`.
    #[inline]
    pub fn left(&self, class: usize, handed: u32) -> u32 {
        if self.is_current() { self.distance(class, handed) } else { 0 }
    }

    fn distance(&self, class: usize, handed: u32) -> u32 {
        self.due_at[class].get().wrapping_sub(handed) % WRAP
    }

    /// True if the next block of `class` is known to be no sample. Else `is_due` must see it.
    #[inline]
    pub fn is_ahead(&self, class: usize, handed: u32) -> bool {
        (1..self.beyond()).contains(&self.left(class, handed))
    }

    /// No point is drawn so far ahead. So a point at this distance or a larger one was passed.
    fn beyond(&self) -> u32 {
        self.every.get().max(1).saturating_mul(2)
    }

    /// True if the next block of `class` is a sample. The caller allocates that block next: no list
    /// that went beyond a sample is still to be cut. So a point that was passed, while the option
    /// was 0 or under a filter, is drawn anew.
    pub fn is_due(&self, class: usize, handed: impl Fn(usize) -> u32) -> bool {
        if !self.is_current() {
            self.run.set(RUN.load(Relaxed));
            self.every.set(policy::GUARD_SAMPLE.get());
            (0..CLASSES).for_each(|class| self.draw(class, handed(class)));
        }
        if self.distance(class, handed(class)) >= self.beyond() {
            self.draw(class, handed(class));
        }
        self.distance(class, handed(class)) == 0
    }

    /// Draws the next point of `class`, from the block on that comes at the count `from`.
    pub fn draw(&self, class: usize, from: u32) {
        let most = 2 * u64::from(self.every.get().max(1)) - 1;
        self.due_at[class].set(from.wrapping_add((random() % most) as u32));
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::testing::in_child;

    #[test]
    fn one_block_in_so_many_is_a_sample() {
        policy::GUARD_SAMPLE.set(100);
        let points = Points::new();
        let (mut samples, mut handed) = (0, WRAP - 50_000);
        for _ in 0..1_000_000 {
            if points.is_due(7, |_| handed) {
                samples += 1;
                points.draw(7, handed + 1);
            }
            handed = (handed + 1) % WRAP;
        }
        assert!((9_500..10_500).contains(&samples), "{samples}");
        policy::GUARD_SAMPLE.set(1);
        assert_eq!(points.left(7, handed), 0, "the option has changed");
        for _ in 0..100 {
            assert!(points.is_due(7, |_| handed));
            points.draw(7, handed + 1);
            handed = (handed + 1) % WRAP;
        }
        after_fork();
        assert_eq!(points.left(7, handed + 5), 0, "counts begin anew");
        policy::GUARD_SAMPLE.set(0);
    }

    #[test]
    fn points_that_were_passed_are_drawn_anew() {
        in_child(|| {
            policy::GUARD_SAMPLE.set(100);
            let points = Points::new();
            points.is_due(7, |_| 0);
            // The option was 0 for so many blocks.
            let mut handed = 300;
            assert!(!points.is_ahead(7, handed));
            while !points.is_due(7, |_| handed) {
                assert!(points.is_ahead(7, handed));
                handed += 1;
                assert!(handed < 500, "no sample in 200 blocks");
            }
            // A list that went beyond the sample is cut by this distance.
            assert_eq!(points.left(7, handed + 20), WRAP - 20);
            assert_eq!(points.left(7, handed), 0);
        });
    }

    /// The farthest point is ahead, and the caller may have refused a sample just before.
    #[test]
    fn points_that_are_far_ahead_stay() {
        in_child(|| {
            for every in [1, 100, 1 << 30] {
                policy::GUARD_SAMPLE.set(every);
                let points = Points::new();
                points.is_due(7, |_| 0);
                points.due_at[7].set(2 * every - 1);
                assert!(points.is_ahead(7, 0), "{every}");
                assert!(!points.is_due(7, |_| 0), "{every}");
                assert_eq!(points.left(7, 0), 2 * every - 1);
            }
        });
    }
}
