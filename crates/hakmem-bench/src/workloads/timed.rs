//! The probes that are timed, as workloads for any allocator that are run by name only.

use super::workload::Workload;
use super::{grow, large, latency, mixed, mstress, sh6, text};
use crate::heap::{Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::alloc::Layout;
use std::hint::black_box;
use std::thread;

struct Timed<A>(std::marker::PhantomData<A>);

/// All of them for allocator `A`.
pub fn table<A: Subject>() -> &'static [Workload] {
    Timed::<A>::ALL
}

/// The loops in which purging has something to do: they run for several times the second in which
/// memory decays.
pub const LOOPS: [&str; 6] = [
    "loop_waves",
    "loop_mixed",
    "loop_medium",
    "loop_sh6",
    "loop_trees",
    "loop_mstress",
];

macro_rules! timed {
    ($name:literal, $ops:expr, $threads:literal, $run:expr) => {
        Workload {
            name: $name,
            ops: $ops,
            threads: $threads,
            what: "a probe",
            source: "probes",
            run: $run,
        }
    };
}

#[rustfmt::skip]
impl<A: Subject> Timed<A> {
    const ALL: &'static [Workload] = &[
        timed!("nothing", 1, 1, |_, m| m.measure(|| ())),
        timed!("pair_64k", 2_000_000, 1, |n, m| large::pairs::<A>(64 << 10, n, m)),
        timed!("pair_256k", 2_000_000, 1, |n, m| large::pairs::<A>(256 << 10, n, m)),
        timed!("pair_2m", 20_000, 1, large::vm::<A>),
        timed!("rust_pair_64", 100_000_000, 1, rust_pair::<A>),
        timed!("calloc_64m", 300, 1, large::zeroed::<A>),
        timed!("grow_1g", 3, 1, |n, m| grow_to_gib::<A>(n, m)),
        timed!("threads_20k", 20_000, 1, short_threads::<A>),
        timed!("latency", 10_000_000, 2, latency::run::<A>),
        timed!("loop_waves", 40, 1, waves::<A>),
        timed!("loop_mixed", 12_000_000, 1, |n, m| mixed::run::<A>(100_000, n, m)),
        timed!("loop_medium", 6_000_000, 2, large::mid_mt::<A>),
        timed!("loop_sh6", 60_000_000, 1, |n, m| sh6::run::<A>(sh6::Order::Random, n, m)),
        timed!("loop_trees", 600, 1, text::trees::<A>),
        timed!("loop_mstress", 20_000_000, 2, mstress::run::<A>),
    ];
}

/// Pairs of the allocator's calls and nothing else, the layout known to the compiler.
fn rust_pair<A: Subject>(ops: u64, meter: &mut Meter) {
    const LAYOUT: Layout = Layout::new::<[u64; 8]>();
    meter.measure(|| {
        for _ in 0..ops {
            // SAFETY: the layout is not empty.
            let block = black_box(unsafe { A::subject().alloc(LAYOUT) });
            assert!(!block.is_null(), "no memory for 64 bytes");
            // SAFETY: the block came from this allocator with this layout, and nobody else has it.
            unsafe { A::subject().dealloc(block, LAYOUT) };
        }
    });
}

fn grow_to_gib<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| {
        for _ in 0..ops {
            grow::by_half::<A>(1 << 30);
        }
    });
}

/// Threads one after the other.
fn short_threads<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| {
        for seed in 0..ops {
            let life = thread::spawn(move || {
                let mut rng = Rng::new(seed);
                let blocks: [_; 10] =
                    std::array::from_fn(|_| Heap::<A>::new().block(rng.between(16, 256)));
                drop(blocks);
            });
            life.join().expect("a short life ends well");
        }
    });
}

/// About 100 MiB allocated and freed, over and over.
fn waves<A: Subject>(ops: u64, meter: &mut Meter) {
    const BLOCKS: usize = 200_000;
    let mut blocks = Table::new(BLOCKS);
    let mut rng = Rng::new(60);
    meter.measure(|| {
        for _ in 0..ops {
            for _ in 0..BLOCKS {
                blocks.push(Heap::<A>::new().block(rng.between(16, 1040)));
            }
            blocks.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads;
    use std::alloc::System;

    #[test]
    fn names_are_unique_and_no_workload_has_them() {
        let mut names: Vec<_> = table::<System>().iter().map(|w| w.name).collect();
        names.extend(workloads::names());
        names.extend(workloads::growing::table::<System>().iter().map(|w| w.name));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(LOOPS.iter().all(|l| names.contains(l)));
    }
}
