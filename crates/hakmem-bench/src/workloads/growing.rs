//! The steps of the curves of growth, as workloads for any allocator that are run by name only.

use super::workload::Workload;
use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::sync::Barrier;
use std::thread;

/// Blocks that each thread has live.
const BLOCKS_OF_A_THREAD: usize = 1000;

struct Steps<A>(std::marker::PhantomData<A>);

/// The steps as workloads of allocator `A`, run by name only. Their operations do not depend on the
/// step.
pub fn table<A: Subject>() -> &'static [Workload] {
    Steps::<A>::ALL
}

macro_rules! live {
    ($name:literal, $blocks:literal) => {
        Workload {
            name: $name,
            ops: 4_000_000,
            threads: 1,
            what: "replace a random one of the live blocks by one of 16–112 B",
            source: "growth",
            run: |ops, meter| live::<A>($blocks, ops, meter),
        }
    };
}

macro_rules! threads {
    ($name:literal, $threads:literal) => {
        Workload {
            name: $name,
            ops: 32_000_000,
            threads: $threads,
            what: "per thread, replace a random one of 1,000 blocks by one of 16–112 B; the \
                operations are shared out",
            source: "growth",
            run: |ops, meter| threads::<A>($threads, ops, meter),
        }
    };
}

impl<A: Subject> Steps<A> {
    const ALL: &'static [Workload] = &[
        live!("live_1k", 1_000),
        live!("live_10k", 10_000),
        live!("live_100k", 100_000),
        live!("live_1m", 1_000_000),
        live!("live_10m", 10_000_000),
        threads!("threads_1", 1),
        threads!("threads_2", 2),
        threads!("threads_4", 4),
        threads!("threads_8", 8),
        threads!("threads_16", 16),
        threads!("threads_32", 32),
        threads!("threads_64", 64),
    ];
}

/// Blocks of 64 bytes in the mean, of which random ones are replaced.
struct Small<A: Subject> {
    slots: Table<Block<A>>,
    rng: Rng,
}

impl<A: Subject> Small<A> {
    fn new(blocks: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let slots = Table::filled(blocks, |_| Heap::new().block(rng.between(16, 112)));
        Self { slots, rng }
    }

    fn replace(&mut self, ops: u64) {
        for _ in 0..ops {
            let slot = self.rng.below(self.slots.len());
            self.slots[slot] = Heap::new().block(self.rng.between(16, 112));
        }
    }
}

fn live<A: Subject>(blocks: usize, ops: u64, meter: &mut Meter) {
    let mut set = Small::<A>::new(blocks, 900);
    // Once through, so that no list is still in the order of the first allocations.
    set.replace(blocks as u64);
    meter.measure(|| set.replace(ops));
    // The process ends here; freeing it all would be the longest part.
    std::mem::forget(set);
}

fn threads<A: Subject>(threads: u64, ops: u64, meter: &mut Meter) {
    // The threads are made and filled before, and end after the measurement.
    let (begin, end) = (
        Barrier::new(threads as usize + 1),
        Barrier::new(threads as usize + 1),
    );
    thread::scope(|scope| {
        for lane in 0..threads {
            let (begin, end) = (&begin, &end);
            scope.spawn(move || {
                let mut set = Small::<A>::new(BLOCKS_OF_A_THREAD, 1000 + lane);
                begin.wait();
                set.replace(ops / threads + u64::from(lane < ops % threads));
                end.wait();
            });
        }
        meter.measure(|| {
            begin.wait();
            end.wait();
        });
    });
}
