//! Threads that allocate at the same time, and have ended.

use crate::heap::Heap;
use crate::probes::stage::Stage;
use crate::rng::Rng;
use std::alloc::System;
use std::sync::Barrier;
use std::thread;

/// The probe, with `count` threads.
pub fn run(count: usize) {
    const BLOCKS: usize = 100;
    let all_filled = Barrier::new(count);
    thread::scope(|scope| {
        for seed in 0..count as u64 {
            let all_filled = &all_filled;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                let mut blocks: [_; BLOCKS] =
                    std::array::from_fn(|_| Heap::<System>::new().block(rng.between(16, 1024)));
                all_filled.wait();
                for _ in 0..10_000 {
                    blocks[rng.below(BLOCKS)] = Heap::new().block(rng.between(16, 1024));
                }
            });
        }
    });
    Stage::default().rest();
}
