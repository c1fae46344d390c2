//! Phases of one size each, every one a quarter larger, of which a few blocks survive (after the
//! programs by which Robson 1971 shows how fragmented memory can become).
//!
//! A survivor keeps a page or two, and dies a phase or two later. An allocator that does not see at
//! once that such a page is free takes fresh memory beside it.

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;

/// Bytes of the blocks of a phase.
const BYTES: usize = 20 << 20;
/// The sizes of the first and of the last phase, then all begins anew.
const SIZES: (usize, usize) = (16, 40_000);
/// One of so many live blocks survives a phase.
const SURVIVES: usize = 20;

/// The live blocks.
struct Blocks<A: Subject> {
    rng: Rng,
    all: Table<Option<Block<A>>>,
}

impl<A: Subject> Blocks<A> {
    fn new() -> Self {
        let most = BYTES / SIZES.0;
        Self {
            rng: Rng::new(2300),
            all: Table::new(most + most / 8),
        }
    }

    fn phase(&mut self, count: usize, size: usize) {
        (0..count).for_each(|_| self.all.push(Some(Heap::new().block(size))));
        let mut kept = 0;
        for i in 0..self.all.len() {
            if self.rng.below(SURVIVES) == 0 {
                self.all.swap(kept, i);
                kept += 1;
            } else {
                self.all[i] = None;
            }
        }
        while self.all.len() > kept {
            self.all.pop();
        }
    }
}

/// The workload.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let mut blocks = Blocks::<A>::new();
    meter.measure(|| {
        let (mut left, mut size) = (ops as usize, SIZES.0);
        while left > 0 {
            let count = (BYTES / size).min(left);
            blocks.phase(count, size);
            left -= count;
            size += size / 4;
            if size > SIZES.1 {
                size = SIZES.0;
            }
        }
        blocks.all.clear();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn about_one_in_twenty_of_all_live_blocks_survives_a_phase() {
        let mut blocks = Blocks::<System>::new();
        blocks.phase(20_000, 16);
        let first = blocks.all.len();
        assert!((850..1150).contains(&first), "{first}");
        blocks.phase(20_000, 20);
        let sizes = |size| {
            blocks
                .all
                .iter()
                .flatten()
                .filter(|block| block.size() == size)
                .count()
        };
        assert!((20..90).contains(&sizes(16)), "{}", sizes(16));
        assert!((850..1150).contains(&sizes(20)), "{}", sizes(20));
        assert!(blocks.all.iter().all(Option::is_some));
    }
}
