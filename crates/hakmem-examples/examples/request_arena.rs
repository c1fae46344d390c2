//! A request arena: a worker of a server has a heap for what one request needs, and gives all of it
//! back at once when the request is answered. It needs the feature `allocator-api2`.
//!
//! ```sh
//! cargo run --release -p hakmem-examples --features allocator-api2 --example request_arena
//! ```
//!
//! The program prints:
//!
//! ```text
//! 1467 blocks came back
//! 0 bytes are left
//! 9900 words occur once
//! ```

use allocator_api2::vec::Vec;
use hakmem::{Hakmem, Heap};
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Counts the words of a text that occur once. All memory that it needs meanwhile is the arena's.
fn answer(arena: &Heap, text: &str) -> usize {
    let mut words = Vec::new_in(arena);
    words.extend(text.split_ascii_whitespace());
    words.sort_unstable();
    let mut once = Vec::new_in(arena);
    for group in words.chunk_by(|a, b| a == b) {
        if let [word] = group {
            once.push(*word);
        }
    }
    once.len()
}

fn main() {
    let (requests, worker) = mpsc::channel::<String>();
    let worker = thread::spawn(move || {
        let mut arena = Heap::builder().name("request").limit(16 << 20).build();
        let mut sum = 0;
        for text in worker {
            sum += answer(&arena, &text);
            arena.reset();
        }
        let figures = arena.stats();
        println!("{} blocks came back", figures.frees);
        println!("{} bytes are left", figures.live_bytes);
        sum
    });
    for request in 0..100 {
        let text: String = (0..1000)
            .map(|i| format!("{} ", i % (request + 500)))
            .collect();
        requests.send(text).expect("the worker runs");
    }
    drop(requests);
    println!(
        "{} words occur once",
        worker.join().expect("it has not panicked")
    );
}
