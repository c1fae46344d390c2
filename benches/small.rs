//! Blocks of one small size, and the hottest pair of all.

use crate::for_each_allocator;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use hakmem_bench::heap::Subject;
use hakmem_bench::workloads::fixed::{BATCH, Batch, hot_pair};

type Group<'a, 'b> = &'a mut BenchmarkGroup<'b, WallTime>;

fn fixed<A: Subject, const SIZE: usize>(group: Group<'_, '_>, allocator: &str) {
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut batch = Batch::<A, SIZE>::default();
    group.bench_function(format!("{allocator}/{SIZE}"), |b| {
        b.iter(|| batch.round(BATCH));
    });
}

fn all_sizes<A: Subject>(group: Group<'_, '_>, allocator: &str) {
    fixed::<A, 16>(group, allocator);
    fixed::<A, 32>(group, allocator);
    fixed::<A, 64>(group, allocator);
    fixed::<A, 128>(group, allocator);
    fixed::<A, 256>(group, allocator);
    fixed::<A, 512>(group, allocator);
    fixed::<A, 1024>(group, allocator);
}

fn tiny_hot<A: Subject>(group: Group<'_, '_>, allocator: &str) {
    group.throughput(Throughput::Elements(1));
    group.bench_function(allocator, |b| b.iter(hot_pair::<A>));
}

pub fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("fixed");
    for_each_allocator!(all_sizes, &mut group);
    group.finish();
    let mut group = c.benchmark_group("tiny_hot");
    for_each_allocator!(tiny_hot, &mut group);
    group.finish();
}
