//! A pool of threads that all have worked and then wait: what each heap keeps adds up.

use crate::heap::{Block, Heap};
use crate::probes::stage::Stage;
use crate::rng::Rng;
use crate::storage::Table;
use std::alloc::System;
use std::sync::Barrier;
use std::thread;

const THREADS: u64 = 64;

/// Each thread allocates `bytes` and frees them.
pub fn run(bytes: usize) {
    let (idle, done) = (
        Barrier::new(THREADS as usize + 1),
        Barrier::new(THREADS as usize + 1),
    );
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (idle, done) = (&idle, &done);
            scope.spawn(move || {
                work(bytes, seed + 700);
                idle.wait();
                done.wait();
            });
        }
        idle.wait();
        Stage::default().rest();
        done.wait();
    });
}

/// Blocks of 16 B to 32 KiB, each doubling as likely. The table is unmapped at the end.
fn work(bytes: usize, seed: u64) {
    let mut rng = Rng::new(seed);
    // As if all blocks were below 1 KiB: the mean is some 4 KiB.
    let mut blocks = Table::<Block<System>>::new((bytes >> 10) + 64);
    let mut allocated = 0;
    while allocated < bytes {
        let power = 16 << rng.below(11);
        let mut block = Heap::new().block(power + rng.below(power));
        block.write_all(0, 1);
        allocated += block.size();
        blocks.push(block);
    }
}
