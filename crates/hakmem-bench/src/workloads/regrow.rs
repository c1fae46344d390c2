//! A heap of small blocks that shrinks to a tenth in random order and grows again, as a cache does
//! that is flushed, or a compiler between two functions of a module.
//!
//! The heap does not fit into the processor's caches, and what is free leads through it in the
//! order of the frees. So an allocator that follows its free lists waits for memory at each block.

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;

/// Blocks when the heap is large: 50 MB.
const MOST: usize = 1 << 20;
/// One of so many is left when it is small.
const LEFT: usize = 10;
/// The sizes.
const SIZES: (usize, usize) = (24, 72);

/// The live blocks.
struct Blocks<A: Subject> {
    rng: Rng,
    all: Table<Option<Block<A>>>,
}

impl<A: Subject> Blocks<A> {
    fn new(most: usize) -> Self {
        Self {
            rng: Rng::new(2400),
            all: Table::new(most),
        }
    }

    /// Grows to `most` blocks, by at most `left`. Returns how many that took.
    fn grow(&mut self, most: usize, left: usize) -> usize {
        let count = (most - self.all.len()).min(left);
        for _ in 0..count {
            let size = self.rng.between(SIZES.0, SIZES.1);
            self.all.push(Some(Heap::new().block(size)));
        }
        count
    }

    /// Frees random ones until `to` are left.
    fn shrink(&mut self, to: usize) {
        while self.all.len() > to {
            let (i, last) = (self.rng.below(self.all.len()), self.all.len() - 1);
            self.all.swap(i, last);
            self.all[last] = None;
            self.all.pop();
        }
    }
}

/// The workload.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let mut blocks = Blocks::<A>::new(MOST);
    meter.measure(|| {
        let mut left = ops as usize;
        while left > 0 {
            left -= blocks.grow(MOST, left);
            blocks.shrink(MOST / LEFT);
        }
        blocks.all.clear();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn it_grows_to_the_most_and_shrinks_at_random() {
        let mut blocks = Blocks::<System>::new(1000);
        assert_eq!(blocks.grow(1000, 600), 600);
        assert_eq!(blocks.grow(1000, 600), 400);
        let address = |block: &Option<Block<System>>| block.as_ref().unwrap().extent().0;
        let before: Vec<_> = blocks.all.iter().map(address).collect();
        blocks.shrink(100);
        let old = |at| before.iter().position(|&other| other == at).unwrap();
        let places: Vec<_> = blocks.all.iter().map(address).map(old).collect();
        assert_eq!(places.len(), 100);
        assert!(places.iter().any(|&place| place > 800) && places.iter().any(|&p| p < 200));
    }
}
