//! Replacing blocks of 4 B–32 KiB, small ones far more often than large ones, alone or in two
//! threads; and bursts of one size (after the malloc benchmarks that accompany glibc).

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::thread;

/// Blocks a thread holds.
const SET: usize = 1024;
const SMALLEST: usize = 4;
/// Each doubling of the size up to 32 KiB is as likely as any other.
const DOUBLINGS: usize = 13;

fn size(rng: &mut Rng) -> usize {
    let low = SMALLEST << rng.below(DOUBLINGS);
    rng.between(low, 2 * low)
}

fn replace_in<A: Subject>(slots: &mut Table<Option<Block<A>>>, seed: u64, ops: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..ops {
        let slot = &mut slots[rng.below(SET)];
        *slot = None;
        *slot = Some(Heap::new().block(size(&mut rng)));
    }
    slots.clear();
}

/// The workload of replacing, in `threads` threads with a set of their own each.
pub fn replace<A: Subject>(threads: u64, ops: u64, meter: &mut Meter) {
    let mut sets: [Option<Table<Option<Block<A>>>>; 2] =
        [0, 1].map(|lane| (lane < threads).then(|| Table::filled(SET, |_| None)));
    meter.measure(|| {
        thread::scope(|scope| {
            for (lane, slots) in (0..).zip(sets.iter_mut().flatten()) {
                let share = ops / threads + u64::from(lane < ops % threads);
                let mut work = move || replace_in(slots, 1400 + lane, share);
                if threads == 1 {
                    // On the main thread: a process that never starts another is what is measured.
                    work();
                } else {
                    scope.spawn(work);
                }
            }
        });
    });
}

/// Blocks of a burst, in turn.
const BURSTS: [usize; 4] = [25, 100, 400, 1600];
/// Sizes of a burst, in turn.
const SIZES: [usize; 5] = [16, 32, 64, 128, 256];

/// The workload of bursts: blocks of one size are allocated, then freed oldest first.
pub fn bursts<A: Subject>(ops: u64, meter: &mut Meter) {
    let mut slots = Table::<Block<A>>::new(BURSTS[BURSTS.len() - 1]);
    meter.measure(|| {
        let mut left = ops as usize;
        let mut turn = 0;
        while left > 0 {
            let n = left.min(BURSTS[turn % BURSTS.len()]);
            let size = std::hint::black_box(SIZES[turn % SIZES.len()]);
            for _ in 0..n {
                slots.push(Heap::new().block(size));
            }
            slots.clear();
            left -= n;
            turn += 1;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_span_their_range_and_half_of_them_are_small() {
        let mut rng = Rng::new(1);
        let mut sizes: Vec<usize> = (0..100_000).map(|_| size(&mut rng)).collect();
        sizes.sort_unstable();
        assert_eq!(sizes[0], SMALLEST);
        assert!((32_000..=32 << 10).contains(&sizes[sizes.len() - 1]));
        assert!((256..=600).contains(&sizes[sizes.len() / 2]));
    }
}
