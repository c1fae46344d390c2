//! A program that others may profile while it runs: keeps as many blocks of 1 KiB as each line of
//! its input says, `keep N`, and answers `ready` after each.

use hakmem_core::Hakmem;
use std::hint::black_box;
use std::io::stdin;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

#[inline(never)]
#[allow(clippy::vec_box, reason = "the boxes are the subject")]
fn keeps(n: usize, to: &mut Vec<Box<[u8; 1024]>>) {
    to.extend((0..n).map(|_| black_box(Box::new([1; 1024]))));
    black_box(to);
}

fn main() {
    let mut kept = Vec::with_capacity(1 << 20);
    println!("ready");
    for line in stdin().lines() {
        let line = line.expect("a line");
        let n = line.strip_prefix("keep ").expect("keep N");
        keeps(n.parse().expect("a number"), &mut kept);
        println!("ready");
    }
}
