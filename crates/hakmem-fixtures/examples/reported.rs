//! A program that the environment asks for reports: `reported [SIGNAL…]`. It allocates 1000 blocks
//! of 3000 bytes, frees 10, sends itself the signals, frees 490 more, and ends with 500.

use hakmem_core::Hakmem;
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

#[inline(never)]
#[allow(clippy::vec_box, reason = "the boxes are the subject")]
fn blocks() -> Vec<Box<[u8; 3000]>> {
    // Looked at before they are returned: a call in the last place would leave this function out of
    // the stack.
    let all = (0..1000).map(|_| black_box(Box::new([1; 3000]))).collect();
    black_box(&all);
    all
}

fn main() {
    let mut blocks = blocks();
    blocks.truncate(990);
    for signal in std::env::args().skip(1) {
        // SAFETY: whatever handles it does what a handler may.
        unsafe { libc::raise(signal.parse().expect("a number")) };
    }
    blocks.truncate(500);
    std::mem::forget(black_box(blocks));
    println!("done");
}
