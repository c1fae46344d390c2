//! Random sizes of 16–1040 bytes in working sets of 64 to 100,000 blocks. The sets are filled
//! before the clock starts.

use crate::for_each_allocator;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use hakmem_bench::heap::Subject;
use hakmem_bench::workloads::mixed::WorkingSet;

fn replace<A: Subject>(group: &mut BenchmarkGroup<'_, WallTime>, allocator: &str, blocks: usize) {
    group.throughput(Throughput::Elements(1));
    group.bench_function(format!("{allocator}/{blocks}"), |b| {
        let mut set = WorkingSet::<A>::new(blocks);
        set.fill();
        b.iter(|| set.replace());
    });
}

pub fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("random_mixed");
    for blocks in [64, 1_000, 10_000, 100_000] {
        for_each_allocator!(replace, &mut group, blocks);
    }
    group.finish();
}
