//! Mode `learn` in a process: what the machine of `tests/learner.rs` decides comes to be what is
//! done.
#![cfg(not(any(loom, shuttle, miri)))]

use crate::oracle;

use hakmem_core::options;
use hakmem_core::stats::{self, What};
use oracle::{apart, in_child};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{hint, thread};

/// A buffer that is too large for the cache as it is at first, a byte of each page written.
fn buffer() {
    const SIZE: usize = 48 << 20;
    // SAFETY: the block is live till it is freed, and holds what is written.
    unsafe {
        let p = hakmem_core::c::malloc(SIZE);
        assert!(!p.is_null());
        (0..SIZE).step_by(4096).for_each(|at| p.add(at).write(1));
        hakmem_core::c::free(hint::black_box(p));
    }
}

fn now(name: &str) -> u32 {
    options::get(name).unwrap().to_string().parse().unwrap()
}

/// By two threads at once; what somebody has set stays as it is.
#[test]
fn a_program_of_large_buffers() {
    let variables = [("HAKMEM_MODE", "learn"), ("HAKMEM_DECAY_MS", "500")];
    if apart("a_program_of_large_buffers", &variables).is_some() {
        return;
    }
    assert!(stats::is_learning());
    let start = Instant::now();
    let learnt = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !learnt.load(Relaxed) {
                    buffer();
                    let cache_moved = now("HUGE_CACHE_MIB") > 32;
                    learnt.fetch_or(
                        cache_moved || start.elapsed() > Duration::from_secs(120),
                        Relaxed,
                    );
                }
            });
        }
    });
    assert!(
        now("HUGE_CACHE_MIB") > 32,
        "{:?}",
        stats::decisions().collect::<Vec<_>>()
    );
    assert_eq!(now("DECAY_MS"), 500, "it was chosen");
    let decisions: Vec<_> = stats::decisions().collect();
    assert_eq!(decisions.len() as u64, stats::decided());
    let last = decisions
        .iter()
        .rfind(|d| d.what == What::HugeCache)
        .expect("a decision");
    assert_eq!(last.to, now("HUGE_CACHE_MIB"));
    assert!(last.from_fault_us > last.to_fault_us, "{last:?}");
    assert!(
        decisions.iter().all(|d| d.what != What::Decay),
        "{decisions:?}"
    );
    // What was learnt is the child's, too, and it goes on.
    in_child(|| {
        (0..20).for_each(|_| buffer());
        assert!(stats::decided() > 0 && now("HUGE_CACHE_MIB") > 32);
    });
}

/// The same load moves nothing that somebody has set.
#[test]
fn what_was_chosen_stays() {
    let variables = [("HAKMEM_MODE", "learn"), ("HAKMEM_HUGE_CACHE_MIB", "32")];
    if apart("what_was_chosen_stays", &variables).is_some() {
        return;
    }
    (0..80).for_each(|_| buffer());
    assert_eq!(now("HUGE_CACHE_MIB"), 32);
    assert!(stats::decisions().all(|d| d.what != What::HugeCache));
}

/// In mode `frozen` nothing moves.
#[test]
fn frozen() {
    if apart("frozen", &[]).is_some() {
        return;
    }
    assert!(!stats::is_learning());
    (0..50).for_each(|_| buffer());
    assert_eq!((stats::decided(), now("HUGE_CACHE_MIB")), (0, 32));
    // What was live lately may stay: each buffer but the first comes from the cache.
    let before = stats::process().huge_hits;
    assert!(before > 40, "{before} of 49");
    // As much as is live may stay, to the byte: a buffer that is replaced by one of its size comes
    // from the cache. SAFETY: blocks are freed once, and not used.
    unsafe {
        let mut last = hakmem_core::c::malloc(82 << 20);
        for _ in 0..10 {
            let next = hakmem_core::c::malloc(82 << 20);
            hakmem_core::c::free(last);
            last = next;
        }
        hakmem_core::c::free(last);
    }
    assert_eq!(stats::process().huge_hits - before, 9);
}
