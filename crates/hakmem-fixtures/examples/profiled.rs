//! A program that takes its own heap profile while it runs: `profiled FILE`. On standard output it
//! says what each function allocated: name, live bytes, bytes allocated.

use hakmem_core::{Hakmem, profile};
use std::hint::black_box;
use std::io::Write;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

#[inline(never)]
#[allow(clippy::vec_box, reason = "the boxes are the subject")]
fn boxes() -> Vec<Box<[u64; 5]>> {
    // Looked at before it is returned: a call in the last place would leave this function out of
    // the stack.
    let all: Vec<_> = (0..100_000).map(|i| black_box(Box::new([i; 5]))).collect();
    black_box(&all);
    all
}

#[inline(never)]
fn texts() -> Vec<String> {
    let all: Vec<_> = (0..50_000).map(|_| black_box("x".repeat(100))).collect();
    black_box(&all);
    all
}

#[inline(never)]
fn dropped() {
    for i in 0..100_000 {
        black_box(vec![i as u8; 700]);
    }
}

fn main() {
    let file = std::env::args_os().nth(1).expect("usage: profiled FILE");
    assert!(profile::start(2048));
    let boxes = boxes();
    let texts = texts();
    dropped();
    let mut out = std::fs::File::create(file).expect("FILE can be made");
    let written = profile::dump(profile::Event::Call, |text| out.write_all(text));
    written.expect("a profile").expect("FILE can be written");

    // Blocks of 40 bytes, of 112 for 100, of 768 for 700; whole slots of 64 KiB and segments of 2
    // MiB for the vectors.
    let of_boxes = boxes.len() * 40 + (boxes.capacity() * 8).next_multiple_of(64 << 10);
    let of_texts = texts.len() * 112 + (texts.capacity() * 24).next_multiple_of(2 << 20);
    println!("boxes {of_boxes} {of_boxes}");
    println!("texts {of_texts} {of_texts}");
    println!("dropped 0 {}", 100_000 * 768);
}
