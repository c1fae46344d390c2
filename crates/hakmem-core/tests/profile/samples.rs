//! The samples of a heap profile, as the library writes it.

use hakmem_core::profile::{self, Event};
use std::collections::BTreeMap;

/// Bytes from one sample to the next in these tests.
pub const INTERVAL: u64 = 4096;

/// Samples of blocks of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Samples {
    /// Not freed.
    pub live: u64,
    /// Ever taken.
    pub all: u64,
}

/// Reads a profile: samples by the size of the block.
pub fn samples() -> BTreeMap<u64, Samples> {
    let text = profile::dump(Event::Call, |text| {
        String::from_utf8(text.to_vec()).unwrap()
    })
    .unwrap();
    let mut lines = text.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .ends_with(&format!("@ heap_v2/{INTERVAL}"))
    );
    assert!(lines.next().unwrap().contains(" lost=0 "));
    let mut sizes = BTreeMap::<u64, Samples>::new();
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let numbers = line
            .split_once('@')
            .unwrap()
            .0
            .replace(['[', ']', ':'], " ");
        let numbers: Vec<u64> = numbers
            .split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect();
        let [live, live_bytes, all, all_bytes] = numbers[..] else {
            panic!("{line}")
        };
        let size = all_bytes / all;
        assert_eq!((live_bytes, all_bytes), (live * size, all * size), "{line}");
        let sum = sizes.entry(size).or_default();
        (sum.live, sum.all) = (sum.live + live, sum.all + all);
    }
    assert_eq!(lines.next(), Some("MAPPED_LIBRARIES:"));
    assert!(lines.all(|line| line.split(' ').nth(1).unwrap().contains('x')));
    sizes
}
