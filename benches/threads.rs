//! Blocks allocated by one thread and freed by another.

use crate::for_each_allocator;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use hakmem_bench::heap::Subject;
use hakmem_bench::meter::Meter;
use hakmem_bench::workloads::remote;

/// Blocks per iteration: enough that starting two threads does not count.
const BLOCKS: u64 = 50_000;

fn cross_thread<A: Subject>(group: &mut BenchmarkGroup<'_, WallTime>, allocator: &str) {
    group.throughput(Throughput::Elements(BLOCKS));
    group.bench_function(allocator, |b| {
        b.iter_custom(|iterations| {
            let mut meter = Meter::default();
            remote::run::<A>(1, BLOCKS * iterations, &mut meter);
            meter.time
        });
    });
}

pub fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("cross_thread_free");
    for_each_allocator!(cross_thread, &mut group);
    group.finish();
}
