//! A program to be looked at from outside: allocates what the tests of `hakmem top` expect, in mode
//! `learn` until something was learnt, and waits until its input ends.

use hakmem_core::{Hakmem, stats};
use std::hint::black_box;
use std::io::Read;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Buffers that are too large for the cache as it is at first.
fn learn() {
    let start = Instant::now();
    while stats::decided() == 0 && start.elapsed() < Duration::from_secs(100) {
        black_box(vec![1u8; 48 << 20]);
    }
}

fn main() {
    let mut blocks: Vec<Box<[u8; 3000]>> = (0..1000).map(|_| Box::new([1; 3000])).collect();
    blocks.truncate(990);
    if stats::is_learning() {
        learn();
    }
    println!("ready");
    let mut end = String::new();
    // Whatever comes, it ends.
    let _ = std::io::stdin().read_to_string(&mut end);
    assert_eq!(blocks.len(), 990);
}
