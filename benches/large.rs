//! Large pairs and growing buffers.

use crate::for_each_allocator;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use hakmem_bench::heap::Subject;
use hakmem_bench::workloads::{grow, large};
use std::hint::black_box;

type Group<'a, 'b> = &'a mut BenchmarkGroup<'b, WallTime>;

fn pairs<A: Subject>(group: Group<'_, '_>, allocator: &str) {
    for (name, size) in [("64K", 64 << 10), ("256K", 256 << 10)] {
        group.bench_function(format!("{allocator}/{name}"), |b| {
            b.iter(|| large::pair::<A>(black_box(size)));
        });
    }
    group.bench_function(format!("{allocator}/2M"), |b| b.iter(large::vm_pair::<A>));
}

fn growth<A: Subject>(group: Group<'_, '_>, allocator: &str) {
    for (name, end) in [("64K", 64 << 10), ("16M", 16 << 20)] {
        group.throughput(Throughput::Bytes(end as u64));
        group.bench_function(format!("{allocator}/{name}"), |b| {
            b.iter(|| grow::double_to::<A>(black_box(end)));
        });
    }
}

pub fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("pairs");
    for_each_allocator!(pairs, &mut group);
    group.finish();
    let mut group = c.benchmark_group("realloc_growth");
    for_each_allocator!(growth, &mut group);
    group.finish();
}
