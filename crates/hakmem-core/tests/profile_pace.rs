//! The heap profile of a program that allocates faster than samples may be taken: the interval is
//! stretched, and what is written stands for what was allocated, by the counts as they are and by
//! those for pprof.

use crate::oracle::alone;
use hakmem_core::c;
use hakmem_core::profile::{self, DEFAULT_INTERVAL, Event};

/// Sizes that are classes of their own, and a large one, with the number of blocks.
const SIZES: [(usize, u64); 4] = [
    (1024, 2_000_000),
    (65_536, 500_000),
    (16_384, 500_000),
    (1 << 20, 20_000),
];

/// Bytes of each block for its tag.
const BEHIND: usize = if cfg!(feature = "hardened") { 8 } else { 0 };

/// Blocks that are kept: one in so many.
const KEPT: u64 = 20_000;

#[derive(Debug, Default, Clone, Copy)]
struct Estimate {
    live: f64,
    all: f64,
    /// Of `all`, the square of its standard error.
    variance: f64,
    /// By the counts for pprof.
    for_pprof: f64,
    lines: u32,
}

fn chance(size: u64, interval: u64) -> f64 {
    -(-(size as f64) / interval as f64).exp_m1()
}

/// Blocks of a size, by the profile.
fn estimate(text: &str, size: u64) -> Estimate {
    let mut sum = Estimate::default();
    let mut drawn = None;
    for line in text.lines().take_while(|line| !line.is_empty()) {
        let numbers = |text: &str| -> Vec<u64> {
            let words = text.split([' ', ':', '[', ']']).filter(|n| !n.is_empty());
            words.map(|n| n.parse().unwrap()).collect()
        };
        if let Some(longer) = line.strip_prefix("# at ") {
            drawn = Some(numbers(longer));
        } else if let Some((counts, _)) = line.split_once(" @ 0x") {
            let counts = numbers(counts);
            let drawn = drawn
                .take()
                .unwrap_or(vec![DEFAULT_INTERVAL, counts[0], counts[2]]);
            let [interval, live, all] = drawn[..] else {
                panic!("{line}")
            };
            assert!(interval.is_multiple_of(DEFAULT_INTERVAL));
            assert!((interval / DEFAULT_INTERVAL).is_power_of_two());
            if counts[3] != counts[2] * size {
                continue;
            }
            let p = chance(size, interval);
            sum.live += live as f64 / p;
            sum.all += all as f64 / p;
            sum.variance += all as f64 * (1.0 - p) / (p * p);
            sum.for_pprof += counts[2] as f64 / chance(size, DEFAULT_INTERVAL);
            sum.lines += 1;
        }
    }
    sum
}

/// In a process of its own: the profile is the process's.
#[test]
fn what_was_allocated_fast_is_estimated_rightly() {
    alone(
        "what_was_allocated_fast_is_estimated_rightly",
        allocate_fast,
    );
}

fn allocate_fast() {
    assert!(profile::start(DEFAULT_INTERVAL));
    let mut kept = Vec::new();
    for (size, count) in SIZES {
        for i in 0..count {
            // SAFETY: any size may be asked for; each block is freed once.
            unsafe {
                let p = c::malloc(size - BEHIND);
                assert!(!p.is_null());
                if i % KEPT == 0 {
                    kept.push(p.expose_provenance());
                } else {
                    c::free(p);
                }
            }
        }
    }
    let text = profile::dump(Event::Call, |text| {
        String::from_utf8(text.to_vec()).unwrap()
    });
    let text = text.unwrap();
    for (size, count) in SIZES {
        let got = estimate(&text, size as u64);
        let off = (got.all - count as f64).abs();
        // The variance of what was allocated, not of what was seen: that is too small where few
        // samples came.
        let variance = got.variance / got.all * count as f64;
        assert!(
            off < 5.0 * variance.sqrt() + 1.0,
            "{size}: {got:?} for {count}"
        );
        let rounded = f64::from(got.lines) / chance(size as u64, DEFAULT_INTERVAL);
        assert!((got.for_pprof - got.all).abs() < rounded, "{size}: {got:?}");
        assert!(got.live <= got.all);
    }
    for p in kept {
        // SAFETY: allocated above, and still live.
        unsafe { c::free(std::ptr::with_exposed_provenance_mut(p)) }
    }
    let text = profile::dump(Event::Call, |text| {
        String::from_utf8(text.to_vec()).unwrap()
    });
    let text = text.unwrap();
    for (size, _) in SIZES {
        assert_eq!(estimate(&text, size as u64).live, 0.0, "{size}");
    }
}
