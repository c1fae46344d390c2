//! A program to be looked at from outside: allocates what the tests of `hakmem top` expect, decides something, and waits
//! until its input ends.

use hakmem_core::{Hakmem, decisions};
use std::io::Read;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

fn main() {
    let mut blocks: Vec<Box<[u8; 3000]>> = (0..1000).map(|_| Box::new([1; 3000])).collect();
    blocks.truncate(990);
    decisions::note(format_args!("CARVE_BYTES of 64: 4096 → 8192 (an example)"));
    println!("ready");
    let mut end = String::new();
    // Whatever comes, it ends.
    let _ = std::io::stdin().read_to_string(&mut end);
    assert_eq!(blocks.len(), 990);
}
