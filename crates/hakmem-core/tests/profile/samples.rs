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

#[allow(dead_code, reason = "each user of this module needs a part of it")]
/// Bytes of the block for a request of `usable` bytes, which is what `usable_size` tells. In the
/// hardened build it tells the request, and the block has a tag of 8 bytes.
pub fn room(usable: usize) -> u64 {
    const SLOT: usize = 64 << 10;
    if !cfg!(feature = "hardened") {
        return usable as u64;
    }
    match (usable + 8).max(32) {
        n @ ..=SLOT => {
            let snapshot = hakmem_core::stats::Snapshot::take();
            let mut sizes = snapshot.classes().map(|class| class.size);
            sizes
                .find(|&size| size >= n as u64 && size.is_multiple_of(16))
                .unwrap()
        }
        n if n <= 1 << 20 => n.next_multiple_of(SLOT) as u64,
        n => n.next_multiple_of(2 << 20) as u64,
    }
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
