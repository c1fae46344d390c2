//! Random blocks of random slots replaced, both after Pareto: most blocks are small, most
//! replacements fall on few slots, and all of a block is written, and read before it goes (after
//! "alloc-test").

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::thread;

/// Slots a thread has.
const SLOTS: usize = 1 << 15;
const SMALLEST: u64 = 8;
const LARGEST: u64 = 1024;

/// A Pareto variate with exponent 1, from `SMALLEST` to `LARGEST`.
fn size(rng: &mut Rng) -> usize {
    // 1 / u for u from 2^-32 to 1, in integers.
    let u = (rng.bits() >> 32) + 1;
    ((SMALLEST << 32) / u).min(LARGEST) as usize
}

/// A slot: 80 of 100 draws fall on 20 of 100 slots, of these again 80 on 20, and so on.
fn slot(rng: &mut Rng) -> usize {
    let mut range = SLOTS;
    while range > 8 && rng.below(100) < 80 {
        range /= 5;
    }
    rng.below(range)
}

fn work<A: Subject>(slots: &mut Table<Option<Block<A>>>, seed: u64, ops: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let mut sum = 0;
    for i in 0..ops {
        let slot = &mut slots[slot(&mut rng)];
        if let Some(old) = slot.take() {
            sum += old.sum();
        }
        let mut block = Heap::new().block(size(&mut rng));
        block.write_all(0, i as u8);
        *slot = Some(block);
    }
    slots.clear();
    sum
}

/// The workload in `threads` threads with slots of their own, one or two.
pub fn run<A: Subject>(threads: u64, ops: u64, meter: &mut Meter) {
    let mut sets: [Option<Table<Option<Block<A>>>>; 2] =
        [0, 1].map(|lane| (lane < threads).then(|| Table::filled(SLOTS, |_| None)));
    meter.measure(|| {
        thread::scope(|scope| {
            for (lane, slots) in (0..).zip(sets.iter_mut().flatten()) {
                let share = ops / threads + u64::from(lane < ops % threads);
                let mut work = move || std::hint::black_box(work(slots, 1700 + lane, share));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn sizes_halve_in_number_as_they_double() {
        let mut rng = Rng::new(1);
        let mut at_least = [0_f64; 8];
        for _ in 0..100_000 {
            let size = size(&mut rng);
            assert!((SMALLEST as usize..=LARGEST as usize).contains(&size));
            for (k, n) in at_least.iter_mut().enumerate() {
                *n += f64::from(size >= 8 << k);
            }
        }
        for pair in at_least.windows(2) {
            assert!((pair[1] / pair[0] - 0.5).abs() < 0.06, "{at_least:?}");
        }
    }

    #[test]
    fn the_work_is_the_same_on_every_allocator() {
        let sum = work::<System>(&mut Table::filled(SLOTS, |_| None), 1, 20_000);
        assert!(sum > 0);
        let again = work::<hakmem_core::Hakmem>(&mut Table::filled(SLOTS, |_| None), 1, 20_000);
        assert_eq!(sum, again);
    }
}
