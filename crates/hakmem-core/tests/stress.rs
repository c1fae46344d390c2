//! Threads that come and go while others free their blocks.

use crate::oracle;
#[path = "profile/samples.rs"]
mod samples;

use hakmem_core::{c, options, profile, stats};
use oracle::{Block, C, FrontEnd, Oracle, Random, Ranges, Rust, alone, share};
use std::alloc::Layout;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// A size and an alignment, mostly small ones.
fn layout_by(random: &mut Random) -> Layout {
    let size = match random.below(500) {
        0 => 1 + random.below(3 << 20),
        1..30 => 1 + random.below(64 << 10),
        30..200 => 1 + random.below(1040),
        _ => 1 + random.below(128),
    };
    let align = match random.below(50) {
        0 => 1 << random.below(17),
        _ => 1 << random.below(5),
    };
    Layout::from_size_align(size, align).unwrap()
}

/// Blocks that a generation of threads leaves to whoever comes next. Bounded, so that memory is.
struct Pool {
    blocks: Mutex<Vec<Block>>,
    most: usize,
}

impl Pool {
    fn new(most: usize) -> Self {
        Self {
            blocks: Mutex::new(Vec::new()),
            most,
        }
    }

    /// Leaves a block and takes another one at random, when there are enough.
    fn exchange(&self, block: Block, random: &mut Random) -> Option<Block> {
        let mut blocks = self.blocks.lock().unwrap();
        blocks.push(block);
        let at = random.below(blocks.len());
        (blocks.len() > self.most || random.below(2) == 0).then(|| blocks.swap_remove(at))
    }
}

/// A short life: works on its own blocks and on other threads', and leaves the rest of its own
/// behind.
fn live<D: FrontEnd>(front_end: D, ranges: &Ranges, pool: &Pool, number: usize, ops: usize) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1));
    let mut oracle = Oracle::new(front_end, ranges, number as u64);
    let mut own: Vec<Block> = Vec::new();
    for _ in 0..ops {
        match random.below(10) {
            0..4 => own.push(oracle.alloc(layout_by(&mut random))),
            4 => own.push(oracle.alloc_zeroed(layout_by(&mut random))),
            choice if !own.is_empty() => {
                let block = own.swap_remove(random.below(own.len()));
                match choice {
                    5 => own.push(oracle.realloc(block, layout_by(&mut random).size())),
                    6..8 => oracle.dealloc(block),
                    _ => {
                        if let Some(other) = pool.exchange(block, &mut random) {
                            oracle.dealloc(other);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    for block in own {
        if let Some(other) = pool.exchange(block, &mut random) {
            oracle.dealloc(other);
        }
    }
}

/// `width` threads at a time, `lives` in all: each is followed by another as soon as it ends.
fn churn<D: FrontEnd + Send + Sync>(front_end: D, width: usize, lives: usize, ops: usize) {
    let (ranges, pool, next) = (Ranges::default(), Pool::new(500), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..width {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= lives {
                        break;
                    }
                    let life = || live(front_end, &ranges, &pool, number, ops);
                    thread::scope(|inner| inner.spawn(life).join()).expect("a thread failed");
                }
            });
        }
    });
    let mut oracle = Oracle::new(front_end, &ranges, lives as u64);
    for block in pool.blocks.into_inner().unwrap() {
        oracle.dealloc(block);
    }
    ranges.assert_empty();
}

#[test]
fn threads_that_live_long() {
    churn(Rust, 4, 16, share(40_000));
}

#[test]
fn threads_that_come_and_go() {
    churn(Rust, 6, share(4_000), 100);
}

#[test]
fn threads_that_come_and_go_through_c() {
    churn(C, 6, share(4_000), 100);
}

/// Far more threads at once than processors: heaps are made faster than they can be adopted.
#[test]
fn many_threads_at_once() {
    churn(C, 64, share(256).max(64), share(300));
}

/// All but the first thread get their first blocks of pages that they share.
#[test]
fn while_threads_share_pages() {
    alone("while_threads_share_pages", || {
        options::set("SHARED_FROM_HEAPS", "1").unwrap();
        churn(Rust, 4, 8, share(10_000));
        churn(C, 6, share(2_000), 100);
        assert!(profile::start(samples::INTERVAL));
        churn(Rust, 6, share(1_000), 100);
        assert_eq!(samples::samples().values().map(|s| s.live).sum::<u64>(), 0);
    });
}

/// Every few KiB a sample: none is lost, whoever allocates and frees, and no free of one is missed.
#[test]
fn while_the_heap_profile_samples() {
    alone("while_the_heap_profile_samples", || {
        assert!(profile::start(samples::INTERVAL));
        churn(Rust, 4, 8, share(10_000));
        churn(C, 6, share(1_000), 100);
        churn(C, 64, 64, share(300));
        let samples = samples::samples();
        let all: u64 = samples.values().map(|s| s.all).sum();
        let live: u64 = samples.values().map(|s| s.live).sum();
        assert!(
            all > share(1000) as u64 && live == 0,
            "{live} of {all} live"
        );
    });
}

/// Too large for the huge cache as it is at first, so that there is something to learn.
fn buffer() {
    const SIZE: usize = 48 << 20;
    // SAFETY: live till it is freed, and holds what is written.
    unsafe {
        let p = c::malloc(SIZE);
        assert!(!p.is_null());
        (0..SIZE).step_by(4096).for_each(|at| p.add(at).write(1));
        c::free(p);
    }
}

/// All threads tell the learner what they do, and it changes settings under them.
#[test]
fn while_the_learner_decides() {
    alone("while_the_learner_decides", || {
        options::set("MODE", "learn").unwrap();
        let churned = AtomicBool::new(false);
        let start = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                // The limit is for one that never learns.
                while !(churned.load(Relaxed) && stats::decided() > 0)
                    && start.elapsed() < Duration::from_secs(120)
                {
                    buffer();
                }
            });
            churn(Rust, 4, 8, share(10_000));
            churn(C, 6, share(1_000), 100);
            churned.store(true, Relaxed);
        });
        let decided = stats::decided();
        assert!(decided > 0);
        assert_eq!(stats::decisions().count() as u64, decided.min(64));
    });
}
