//! stats_alloc around hakmem: its counts and hakmem's agree.

use hakmem::Hakmem;
use stats_alloc::{Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: StatsAlloc<Hakmem> = StatsAlloc::new(Hakmem::new());

fn main() {
    let region = Region::new(&ALLOCATOR);
    let before = hakmem::stats::process().allocations;
    let blocks: Vec<Box<[u8; 100]>> = (0..1000).map(|_| Box::new([1; 100])).collect();
    let theirs = region.change();
    let ours = hakmem::stats::process().allocations - before;
    assert!(theirs.allocations >= 1000, "{theirs:?}");
    assert!(theirs.bytes_allocated >= 100_000, "{theirs:?}");
    assert!(ours.abs_diff(theirs.allocations as u64) <= 10, "{ours} {theirs:?}");
    drop(blocks);
    assert!(region.change().bytes_deallocated >= 100_000);
    println!("stats_alloc: {} allocations, hakmem: {ours}", theirs.allocations);
}
