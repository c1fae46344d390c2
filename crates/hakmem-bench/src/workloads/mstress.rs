//! Blocks that migrate: threads allocate, keep some, exchange some through slots that all of them
//! share, and are replaced by new threads (after the stress test that accompanies mimalloc).

use super::shared::Shared;
use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::thread;

const THREADS: u64 = 2;
const SHARED: usize = 1000;
/// Blocks a thread keeps for its own life, at most.
const KEPT: usize = 2000;
/// Allocations in a thread's life.
const LIFE: u64 = 20_000;

/// Mostly small, sometimes a page, rarely a large buffer.
fn size(rng: &mut Rng) -> usize {
    match rng.below(1000) {
        0 => 64 << 10,
        1..50 => rng.between(1024, 4096),
        50..300 => rng.between(128, 1024),
        _ => rng.between(16, 128),
    }
}

fn life<A: Subject>(shared: &Shared<A>, kept: &mut Table<Block<A>>, seed: u64, ops: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..ops {
        let block = Heap::new().block(size(&mut rng));
        match rng.below(8) {
            0..3 => drop(shared.exchange(rng.below(SHARED), Some(block))),
            3..6 if kept.len() < KEPT => kept.push(block),
            3..6 => {
                let i = rng.below(KEPT);
                kept[i] = block;
            }
            _ => drop(block),
        }
    }
    // Half of what was kept dies with the thread, the other half later: by the thread that reuses
    // this table.
    for _ in 0..kept.len() / 2 {
        kept.pop();
    }
}

/// The workload.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let shared = Shared::<A>::new(SHARED);
    let mut lanes = [0; THREADS as usize].map(|_: u8| Table::new(KEPT));
    meter.measure(|| {
        let mut left = ops;
        let mut seed = 500;
        while left > 0 {
            thread::scope(|scope| {
                for kept in &mut lanes {
                    let now = left.min(LIFE);
                    left -= now;
                    seed += 1;
                    let shared = &shared;
                    scope.spawn(move || life(shared, kept, seed, now));
                }
            });
        }
        lanes.iter_mut().for_each(Table::clear);
        shared.clear();
    });
}
