//! How long single calls take. Two threads replace random blocks and exchange some. Most calls are
//! short, so the figures are those of the few long ones, too.

use super::shared::Shared;
use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use crate::ticks::{self, Rate};
use hdrhistogram::Histogram;
use std::thread;

const THREADS: u64 = 2;
/// Live blocks of a thread.
const BLOCKS: usize = 10_000;
/// Slots through which the threads exchange blocks.
const SHARED: usize = 1000;
/// One replacement in this many sends the old block to the other thread, and frees one of its.
const EXCHANGED: usize = 8;
/// One block in this many is large.
const LARGE: usize = 256;
/// No call takes more ticks: some ten seconds.
const LONGEST: u64 = 1 << 35;

/// The figures: a name, and the share of calls that take no longer.
pub const FIGURES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("max", 1.0),
];

/// 16 B to 8 KiB, each doubling as likely; some 64 to 512 KiB.
fn size(rng: &mut Rng) -> usize {
    if rng.below(LARGE) == 0 {
        return rng.between(64 << 10, 512 << 10);
    }
    let power = 16 << rng.below(9);
    power + rng.below(power)
}

/// A thread's blocks, and the time of its calls.
struct Lane<'a, A: Subject> {
    blocks: Table<Option<Block<A>>>,
    shared: &'a Shared<A>,
    rng: Rng,
    /// Ticks. It has room for all of them from the start, so that it never allocates later.
    calls: Histogram<u64>,
}

impl<'a, A: Subject> Lane<'a, A> {
    fn new(shared: &'a Shared<A>, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            blocks: Table::filled(BLOCKS, |_| Some(Heap::new().block(size(&mut rng)))),
            shared,
            rng,
            calls: histogram(),
        }
    }

    fn timed<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let start = ticks::now();
        let result = call();
        self.calls.saturating_record(ticks::now() - start);
        result
    }

    fn replace(&mut self) {
        let i = self.rng.below(BLOCKS);
        let size = size(&mut self.rng);
        let mut old = self.blocks[i].take();
        if self.rng.below(EXCHANGED) == 0 {
            old = self.shared.exchange(self.rng.below(SHARED), old);
        }
        if let Some(old) = old {
            self.timed(|| drop(old));
        }
        let mut new = self.timed(|| Heap::new().untouched(size));
        new.write(0, 1);
        new.write(size - 1, 2);
        self.blocks[i] = Some(new);
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 2).expect("these bounds are in order")
}

/// The workload; the figures are in the meter.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let shared = Shared::<A>::new(SHARED);
    let mut lanes: Vec<Lane<A>> = (0..THREADS).map(|i| Lane::new(&shared, i + 1000)).collect();
    let rate = Rate::begin();
    meter.measure(|| {
        thread::scope(|scope| {
            for (lane, i) in lanes.iter_mut().zip(0..) {
                let ops = ops / THREADS + u64::from(i < ops % THREADS);
                scope.spawn(move || (0..ops).for_each(|_| lane.replace()));
            }
        });
    });
    let nanos = rate.nanos();
    let mut all = histogram();
    for lane in &lanes {
        all += &lane.calls;
    }
    let figure = |&(name, share)| (name, all.value_at_quantile(share) as f64 * nanos);
    meter.figures = FIGURES.iter().map(figure).collect();
    drop(lanes);
    shared.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn every_call_is_counted_and_long_ones_show_at_the_end() {
        let shared = Shared::<System>::new(SHARED);
        let mut lane = Lane::new(&shared, 1);
        // The first exchanges find nothing to free.
        for _ in 0..10_000 {
            lane.replace();
        }
        let calls = lane.calls.len();
        assert!((19_000 - 1..=20_000).contains(&calls), "{calls}");
        drop(lane);
        shared.clear();

        let mut meter = Meter::default();
        run::<System>(20_000, &mut meter);
        let names: Vec<&str> = meter.figures.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, FIGURES.map(|(name, _)| name));
        let values = meter.figures.iter().map(|(_, nanos)| *nanos);
        assert!(values.clone().is_sorted() && values.min_by(f64::total_cmp) > Some(0.0));
    }

    #[test]
    fn sizes_are_mostly_small() {
        let mut rng = Rng::new(5);
        let sizes: Vec<usize> = (0..10_000).map(|_| size(&mut rng)).collect();
        let large = sizes.iter().filter(|size| **size >= 64 << 10).count();
        assert!((10..100).contains(&large), "{large}");
        assert!(sizes.iter().all(|size| (16..=512 << 10).contains(size)));
        assert!(
            sizes
                .iter()
                .all(|size| *size < 8 << 10 || *size >= 64 << 10)
        );
    }
}
