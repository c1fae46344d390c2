//! When the next sample of a heap is due, for each class.
//!
//! A point is a number: what the heap's count of allocated blocks of the class will be. The caller
//! passes that count, modulo [`WRAP`], as `handed`. The distances are uniform, so that a program
//! cannot know them, with the option `GUARD_SAMPLE` as their mean.

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
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    if RANDOM.load(Relaxed) == 0 {
        let seed = os::random()[0] as u64 | 1;
        let _ = RANDOM.compare_exchange(0, seed, Relaxed, Relaxed);
    }
    let mut z = RANDOM.fetch_add(STEP, Relaxed);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
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
    /// drawn.
    #[inline]
    pub fn left(&self, class: usize, handed: u32) -> u32 {
        if self.is_current() { self.distance(class, handed) } else { 0 }
    }

    fn distance(&self, class: usize, handed: u32) -> u32 {
        self.due_at[class].get().wrapping_sub(handed) % WRAP
    }

    /// True if the next block of `class` is a sample.
    pub fn is_due(&self, class: usize, handed: impl Fn(usize) -> u32) -> bool {
        if !self.is_current() {
            self.run.set(RUN.load(Relaxed));
            self.every.set(policy::GUARD_SAMPLE.get());
            (0..CLASSES).for_each(|class| self.draw(class, handed(class)));
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
}
