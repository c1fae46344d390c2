//! A pool of threads that all have worked and then wait: what each heap keeps adds up.

use crate::heap::{Block, Heap};
use crate::probes::stage::Stage;
use crate::rng::Rng;
use crate::storage::Table;
use std::alloc::System;
use std::sync::Barrier;
use std::thread;

const THREADS: u64 = 64;

/// Each thread allocates `bytes` in blocks of 16 B to 32 KiB, and frees them.
pub fn run(bytes: usize) {
    run_with(bytes, 11);
}

/// The same with blocks of 16 B to 1 KiB.
pub fn small(bytes: usize) {
    run_with(bytes, 6);
}

/// The same with blocks of 16 B up to 16 B × 2^`doublings`.
fn run_with(bytes: usize, doublings: usize) {
    let (idle, done) = (
        Barrier::new(THREADS as usize + 1),
        Barrier::new(THREADS as usize + 1),
    );
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (idle, done) = (&idle, &done);
            scope.spawn(move || {
                work(bytes, doublings, seed + 700);
                idle.wait();
                done.wait();
            });
        }
        idle.wait();
        Stage::default().rest();
        done.wait();
    });
}

/// Each doubling is as likely. The table is unmapped at the end.
fn work(bytes: usize, doublings: usize, seed: u64) {
    let mut rng = Rng::new(seed);
    // As if all blocks had a quarter of the mean, which is 24 × 2^doublings / doublings.
    let mut blocks = Table::<Block<System>>::new(((bytes * doublings) >> doublings) / 6 + 64);
    let mut allocated = 0;
    while allocated < bytes {
        let power = 16 << rng.below(doublings);
        let mut block = Heap::new().block(power + rng.below(power));
        block.write_all(0, 1);
        allocated += block.size();
        blocks.push(block);
    }
}
