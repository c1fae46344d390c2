//! Blocks of random sizes that mostly another thread frees than the one that allocated them: each
//! thread fills an array of its own and empties that of its neighbour.

use super::shared::Shared;
use crate::heap::{Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use std::thread;

const THREADS: usize = 4;
/// Slots of each thread's array.
const SLOTS: usize = 2000;

/// Sizes as C programs have them: structures and strings, some buffers.
fn size(rng: &mut Rng) -> usize {
    match rng.below(100) {
        0 => rng.between(4 << 10, 32 << 10),
        1..10 => rng.between(512, 4 << 10),
        _ => rng.between(16, 512),
    }
}

/// Puts a block into this thread's array, and frees one of the neighbour's.
fn work<A: Subject>(arrays: &[Shared<A>], own: usize, ops: u64) {
    let mut rng = Rng::new(own as u64 + 3000);
    let (mine, neighbours) = (&arrays[own], &arrays[(own + 1) % arrays.len()]);
    for _ in 0..ops {
        let block = Heap::new().block(size(&mut rng));
        drop(mine.exchange(rng.below(SLOTS), Some(block)));
        drop(neighbours.exchange(rng.below(SLOTS), None));
    }
}

/// The workload.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let arrays = [(); THREADS].map(|()| Shared::<A>::new(SLOTS));
    meter.measure(|| {
        thread::scope(|scope| {
            for own in 0..THREADS {
                let (arrays, threads) = (&arrays, THREADS as u64);
                let ops = ops / threads + u64::from((own as u64) < ops % threads);
                scope.spawn(move || work(arrays, own, ops));
            }
        });
        arrays.iter().for_each(Shared::clear);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn a_thread_fills_its_own_array_and_empties_its_neighbours() {
        let arrays = [(); 2].map(|()| Shared::<System>::new(SLOTS));
        let live = |array: &Shared<System>| {
            let taken: Vec<_> = (0..SLOTS).map(|i| array.exchange(i, None)).collect();
            taken.iter().flatten().count()
        };
        work(&arrays, 0, 3000);
        assert_eq!(live(&arrays[1]), 0);
        let filled = live(&arrays[0]);
        assert!((1000..2000).contains(&filled), "{filled}");
        work(&arrays, 0, 1000);
        work(&arrays, 1, 100_000);
        assert_eq!(live(&arrays[0]), 0, "the neighbour freed them");
        arrays.iter().for_each(Shared::clear);
    }
}
