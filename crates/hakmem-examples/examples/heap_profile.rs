//! A program that takes a heap profile of itself.
//!
//! The profile says which code allocated the memory that is live, and all that was allocated. It
//! is made of samples, so its figures are estimates. This program samples while it builds an
//! index and reads some lines that it drops again. Then it writes the profile to a file:
//!
//! ```sh
//! cargo run --release -p hakmem-examples --example heap_profile heap.prof
//! hakmem profile --file heap.prof -o heap     # draws flame graphs, writes a file for pprof
//! ```
//!
//! It prints two lines. The numbers of the second differ a little from run to run:
//!
//! ```text
//! the index has 20000 words
//! heap.prof: 346 samples are live, of 1277 in all
//! ```
//!
//! In the flame graph of what is live, `index` is nearly all; `read_lines` is in the one of what
//! was allocated.

use hakmem::Hakmem;
use hakmem::profile::{self, Event};
use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::io;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

/// Samples are 64 KiB of allocations apart, on average. This short program needs more samples
/// than the default gives. A program that runs for long takes `profile::DEFAULT_INTERVAL`.
const INTERVAL: u64 = 64 << 10;

/// Words, and where they are. It stays.
#[inline(never)]
fn index() -> BTreeMap<String, Vec<u64>> {
    let words = (0..20_000u64).map(|n| (format!("word {n}"), vec![n; 128]));
    // The compiler would leave out a function that does nothing after its last call.
    black_box(words.collect())
}

/// Lines that are looked at one by one, and dropped.
#[inline(never)]
fn read_lines() -> usize {
    let lines = (0..32_000).map(|n| "line ".repeat(n % 10 * 64 + 64));
    black_box(lines.map(|line| line.len()).sum())
}

/// A profile begins with the numbers of its samples: `heap profile: LIVE: BYTES [ALL: BYTES]`.
fn samples(profile: &str) -> Option<(&str, &str)> {
    let (live, rest) = profile.strip_prefix("heap profile: ")?.split_once(": ")?;
    let (all, _) = rest.split_once('[')?.1.split_once(": ")?;
    Some((live, all))
}

fn main() -> io::Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "heap.prof".into());
    if !profile::start(INTERVAL) {
        return Err(io::Error::other("the profile does not start"));
    }
    let index = index();
    read_lines();
    profile::stop();
    let profile = profile::dump(Event::Call, |text| {
        String::from_utf8_lossy(text).into_owned()
    });
    let profile = profile.ok_or_else(|| io::Error::other("there is no memory for the profile"))?;
    fs::write(&path, &profile)?;
    let samples = samples(&profile);
    let (live, all) = samples.ok_or_else(|| io::Error::other("the profile has no numbers"))?;
    println!("the index has {} words", index.len());
    println!("{path}: {live} samples are live, of {all} in all");
    Ok(())
}
