//! Threads that live shortly and leave blocks behind when they end, which later threads free (after
//! the "mleak" test of mimalloc-bench, but that nothing stays for good).

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::thread;

/// Blocks that a thread allocates.
const BLOCKS: usize = 256;
/// Of these, blocks that outlive it.
const LEFT: usize = 64;
/// Threads whose blocks are there at the same time.
const GENERATIONS: usize = 16;

/// Frees what an earlier thread left, and leaves as much itself.
fn life<A: Subject>(estate: &mut Table<Block<A>>, seed: u64) {
    let mut rng = Rng::new(seed);
    estate.clear();
    let mut own: [Option<Block<A>>; BLOCKS] =
        std::array::from_fn(|_| Some(Heap::new().block(rng.between(16, 1024))));
    for slot in own.iter_mut().step_by(BLOCKS / LEFT) {
        slot.take().into_iter().for_each(|block| estate.push(block));
    }
}

/// The workload: `ops` threads, two at a time.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let mut estates = Table::filled(GENERATIONS, |_| Table::<Block<A>>::new(LEFT));
    meter.measure(|| {
        let mut seed = 1800;
        let end = seed + ops;
        while seed < end {
            for pair in estates.chunks_mut(2) {
                thread::scope(|scope| {
                    for estate in pair {
                        if seed < end {
                            let this = seed;
                            scope.spawn(move || life(estate, this));
                            seed += 1;
                        }
                    }
                });
            }
        }
        estates.clear();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn a_life_leaves_its_share_and_takes_that_of_its_predecessor() {
        let mut estate = Table::<Block<System>>::new(LEFT);
        life(&mut estate, 1);
        assert_eq!(estate.len(), LEFT);
        let first = estate[0].size();
        life(&mut estate, 2);
        assert_eq!(estate.len(), LEFT);
        assert_ne!(estate[0].size(), first);
    }
}
