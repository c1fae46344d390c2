//! Two threads that free small blocks in a mixture of orders and leave some to the next round
//! (after SmartHeap's sh8bench).

use super::sh6::size;
use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::thread;

const THREADS: u64 = 2;
/// Blocks of a round.
const ROUND: usize = 3000;
/// One of so many blocks of a round stays until the next but one.
const STAY: usize = 16;

/// A thread's books.
struct Lane<A: Subject> {
    sizes: Table<u32>,
    slots: Table<Option<Block<A>>>,
    kept: [Table<Block<A>>; 2],
    shuffled: Table<u32>,
}

impl<A: Subject> Lane<A> {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut shuffled = Table::filled(ROUND / 3, |i| i as u32);
        rng.shuffle(&mut shuffled);
        Self {
            sizes: Table::filled(ROUND, |_| size(&mut rng) as u32),
            slots: Table::filled(ROUND, |_| None),
            kept: [(); 2].map(|()| Table::new(ROUND / STAY + 1)),
            shuffled,
        }
    }

    /// A third is freed oldest first, a third newest first, a third at random.
    fn round(&mut self, turn: usize, n: usize) {
        for (slot, &size) in self.slots.iter_mut().zip(self.sizes.iter()).take(n) {
            *slot = Some(Heap::new().block(size as usize));
        }
        let kept = &mut self.kept[turn % 2];
        kept.clear();
        for slot in self.slots.iter_mut().step_by(STAY) {
            slot.take().into_iter().for_each(|block| kept.push(block));
        }
        let (first, rest) = self.slots.split_at_mut(ROUND / 3);
        let (second, third) = rest.split_at_mut(ROUND / 3);
        first.iter_mut().for_each(|slot| *slot = None);
        second.iter_mut().rev().for_each(|slot| *slot = None);
        for &i in self.shuffled.iter() {
            third[i as usize] = None;
        }
    }

    fn work(&mut self, ops: u64) {
        let mut left = ops as usize;
        let mut turn = 0;
        while left > 0 {
            let n = left.min(ROUND);
            self.round(turn, n);
            left -= n;
            turn += 1;
        }
        self.kept.iter_mut().for_each(Table::clear);
    }
}

/// The workload.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let mut lanes = [0, 1].map(|i| Lane::<A>::new(1600 + i));
    meter.measure(|| {
        thread::scope(|scope| {
            for (i, lane) in (0..).zip(&mut lanes) {
                let share = ops / THREADS + u64::from(i < ops % THREADS);
                scope.spawn(move || lane.work(share));
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn a_round_frees_all_but_those_that_stay_for_two_rounds() {
        let mut lane = Lane::<System>::new(1);
        lane.round(0, ROUND);
        assert!(lane.slots.iter().all(Option::is_none));
        let stay = ROUND.div_ceil(STAY);
        lane.round(1, 100);
        let kept = lane.kept.each_ref().map(|k| k.len());
        assert_eq!(kept, [stay, 100_usize.div_ceil(STAY)]);
        lane.round(2, ROUND);
        assert_eq!(lane.kept[0].len(), stay);
    }
}
