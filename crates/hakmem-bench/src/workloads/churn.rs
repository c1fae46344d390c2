//! Threads that live shortly and allocate a little: what a thread's heap costs to make, to hand on
//! and to end.

use crate::heap::{Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use std::thread;

const BLOCKS: usize = 64;

fn life<A: Subject>(seed: u64) {
    let mut rng = Rng::new(seed);
    // On the stack, so that a short life contains nothing else.
    let blocks: [_; BLOCKS] =
        std::array::from_fn(|_| Heap::<A>::new().block(rng.between(16, 1024)));
    drop(blocks);
}

/// The workload: `ops` threads, two at a time.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| {
        let mut seed = 400;
        while seed < 400 + ops {
            let couple = [seed, seed + 1]
                .map(|s| (s < 400 + ops).then(|| thread::spawn(move || life::<A>(s))));
            for thread in couple.into_iter().flatten() {
                thread.join().expect("a short life ends well");
            }
            seed += 2;
        }
    });
}
