//! Hash maps that grow, shrink and go: the table doubles in one block, each entry has a block of
//! its own.

use crate::heap::{Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use allocator_api2::vec::Vec;
use hashbrown::HashMap;
use std::hash::{BuildHasher, Hasher};

/// Entries of a map when it is full.
const ENTRIES: u64 = 50_000;

/// Keys are random already: they are their own hash, so that hashing costs nothing and depends on
/// nothing.
#[derive(Default, Clone, Copy)]
struct Identity(u64);

impl BuildHasher for Identity {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Identity {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

type Map<A> = HashMap<u64, Vec<u8, Heap<A>>, Identity, Heap<A>>;

/// Fills a map, replaces or removes half of the entries, drops it; the bytes of the values left.
fn life<A: Subject>(entries: u64, rng: &mut Rng) -> usize {
    let mut map: Map<A> = HashMap::with_hasher_in(Identity::default(), Heap::new());
    let keys = rng.clone();
    let value = |key: u64| {
        let length = 8 + key as usize % 120;
        let mut bytes = Vec::with_capacity_in(length, Heap::new());
        bytes.resize(length, key as u8);
        bytes
    };
    for _ in 0..entries {
        let key = rng.bits();
        map.insert(key, value(key));
    }
    let mut again = keys;
    for i in 0..entries {
        let key = again.bits();
        match i % 4 {
            0 => drop(map.remove(&key)),
            1 => drop(map.insert(key, value(key >> 8))),
            _ => {}
        }
    }
    map.values().map(|v| v.len()).sum()
}

/// The maps of a run one after the other, `ops` entries in all.
fn work<A: Subject>(ops: u64) -> usize {
    let mut rng = Rng::new(1300);
    let mut left = ops;
    let mut bytes = 0;
    while left > 0 {
        let entries = left.min(ENTRIES);
        bytes += life::<A>(entries, &mut rng);
        left -= entries;
    }
    bytes
}

/// The workload; an operation is an entry inserted.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| std::hint::black_box(work::<A>(ops)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn a_quarter_of_the_entries_goes_and_the_work_is_the_same_on_every_allocator() {
        let n = ENTRIES + 1000;
        let bytes = work::<System>(n);
        // Values have 67.5 bytes on average.
        let expected = n as f64 * 0.75 * 67.5;
        assert!((bytes as f64 / expected - 1.0).abs() < 0.02, "{bytes}");
        assert_eq!(bytes, work::<hakmem_core::Hakmem>(n));
    }
}
