//! Memory by component: each has a heap, and a table says what each uses. `hakmem top PID` and
//! `hakmem stat` have the same table.
//!
//! ```sh
//! cargo run --release -p hakmem-examples --example components
//! ```
//!
//! The program prints:
//!
//! ```text
//! cache          1 blocks    128 KiB
//! index          1 blocks      0 KiB
//! parser     10001 blocks    462 KiB
//! 0 bytes are left
//! ```

use hakmem::{Hakmem, Heap, stats::Snapshot};
use std::collections::HashMap;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

fn main() {
    let (parser, index, cache) = (
        Heap::named("parser"),
        Heap::named("index"),
        Heap::builder().name("cache").limit(1 << 20).build(),
    );
    let text = "to be or not to be that is the question ".repeat(1000);
    let words: Vec<String> = parser.scope(|| text.split(' ').map(String::from).collect());
    let counts: HashMap<&str, usize> = index.scope(|| {
        let mut counts = HashMap::new();
        for word in &words {
            *counts.entry(word.as_str()).or_default() += 1;
        }
        counts
    });
    let cached: Vec<u8> = cache.scope(|| vec![0; 100_000]);

    for heap in Snapshot::take().program_heaps() {
        let (name, blocks, live) = (heap.name(), heap.blocks(), heap.live_bytes);
        println!("{name:<8}{blocks:>8} blocks {:>6} KiB", live >> 10);
    }
    assert_eq!(counts["be"], 2000);
    drop((counts, cached));
    drop(words);
    let left: u64 = [parser, index, cache]
        .map(|heap| heap.stats().live_bytes)
        .iter()
        .sum();
    println!("{left} bytes are left");
}
