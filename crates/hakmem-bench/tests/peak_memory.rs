//! The peak of a child is its own, whatever this process used before.

use hakmem_bench::child;
use hakmem_bench::heap::Heap;
use std::alloc::System;
use std::process::Command;

#[test]
fn the_parents_memory_is_not_counted_as_the_childs() {
    const SIZE: usize = 256 << 20;
    let mut large = Heap::<System>::new().block(SIZE);
    large.write_every(0, 4096);
    drop(large);
    let finished = child::run(&mut Command::new("true")).expect("it runs");
    assert!(finished.status.success());
    assert!(
        finished.usage.max_rss_kib < (SIZE / 1024 / 4) as u64,
        "{:?}",
        finished.usage
    );
    assert!(
        finished.usage.max_rss_kib > 0 && finished.usage.minor_faults > 0,
        "{:?}",
        finished.usage
    );
}
