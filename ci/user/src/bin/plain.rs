//! `plain ok|after|leak|race`: a program on hakmem that is right, or has one mistake.

use hakmem::Hakmem;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::thread;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Blocks of some sizes, of which threads free each other's.
fn right() {
    let makers: Vec<_> = (0..3)
        .map(|n| {
            thread::spawn(move || {
                (0..50).map(|i| (i, vec![n as u8; i * 40])).collect::<BTreeMap<_, _>>()
            })
        })
        .collect();
    let maps: Vec<_> = makers.into_iter().map(|maker| maker.join().expect("it ends")).collect();
    let bytes: usize = maps.iter().flat_map(|map| map.values()).map(Vec::len).sum();
    assert_eq!(bytes, 3 * 40 * 49 * 50 / 2);
    let mut large = vec![1u64; 20_000];
    large.resize(40_000, 2);
    assert_eq!(black_box(large).iter().sum::<u64>(), 60_000);
}

/// Reads a block that it freed.
fn after() {
    let block = Box::into_raw(Box::new([7u8; 48]));
    // SAFETY: the block is of a Box.
    drop(unsafe { Box::from_raw(block) });
    // SAFETY: none. The tools are to find this.
    println!("{}", unsafe { black_box(block).cast::<u8>().add(20).read_volatile() });
}

/// Forgets a block.
fn leak() {
    let block = vec![1u8; 1000];
    println!("{}", black_box(&block).len());
    std::mem::forget(block);
}

/// A pointer that all threads may have.
#[derive(Clone, Copy)]
struct Shared(*mut u64);
// SAFETY: none, either: both threads write, and nothing orders them.
unsafe impl Send for Shared {}

/// Two threads write one word.
fn race() {
    let word = Shared(Box::into_raw(Box::new(0u64)));
    let write = move || {
        let word = black_box(word);
        for n in 0..1000 {
            // SAFETY: none. The tools are to find this.
            unsafe { word.0.write(n) };
        }
    };
    let threads = [thread::spawn(write), thread::spawn(write)];
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    // SAFETY: the block is of a Box, and no thread has it any more.
    drop(unsafe { Box::from_raw(word.0) });
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("after") => after(),
        Some("leak") => leak(),
        Some("race") => race(),
        _ => right(),
    }
    let served = if hakmem::is_active() { "hakmem" } else { "the fallback" };
    println!("done, on {served}: {} allocations", hakmem::stats::process().allocations);
}
