//! Pages of which few blocks are left: what is between these goes back to the system, and nothing
//! else does.

use crate::{oracle, turn};

use oracle::{Block, Oracle, Ranges, Rust, layout, page_size, share};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const SIZES: [usize; 14] = [
    8, 16, 24, 40, 120, 128, 416, 1000, 3584, 4096, 5120, 12_000, 40_000, 65_536,
];

fn purged() -> u64 {
    hakmem_core::stats::process().purged_bytes
}

/// Frees `blocks` but for one in `keep`, which are returned.
fn thin_out(oracle: &mut Oracle<'_, Rust>, blocks: Vec<Block>, keep: usize) -> Vec<Block> {
    let mut kept = Vec::new();
    for (i, block) in blocks.into_iter().enumerate() {
        if i % keep == keep / 2 {
            kept.push(block);
        } else {
            oracle.dealloc(block);
        }
    }
    kept
}

#[test]
fn what_is_between_live_blocks_is_given_back_and_used_again() {
    let _turn = turn();
    for size in SIZES {
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, size as u64);
        let count = (share(4 << 20).max(2 << 20) / size).min(1 << 18);
        // A page has up to 8192 blocks; one or two are to be left in each, of small pages a fifth.
        let keep = (40_000 / size).max(5);
        let blocks = (0..count).map(|_| oracle.alloc(layout(size))).collect();
        // Where this takes longer than the decay, some is given back on the way.
        let before = purged();
        let mut kept = thin_out(&mut oracle, blocks, keep);
        hakmem_core::c::trim();
        let given = (purged() - before) as usize;
        // A live block holds the piece of the page that it lies in, two if it is unlucky.
        let piece = (4 << 10).max(page_size());
        let held = kept.len() * (size.div_ceil(piece) + 1) * piece;
        assert!(
            given + held + (1 << 20) >= count * size,
            "{size}: {given} given back of {}",
            count * size
        );
        for round in 0..3 {
            for block in &kept {
                oracle.check(block);
            }
            let mut again: Vec<_> = (0..count / 2).map(|_| oracle.alloc(layout(size))).collect();
            again.extend((0..count / 3).map(|_| oracle.alloc_zeroed(layout(size))));
            for block in kept.drain(..kept.len() / (3 - round)) {
                // By a thread that has no heap, or another one.
                let freer = || Oracle::new(Rust, &ranges, 1).dealloc(block);
                thread::scope(|scope| scope.spawn(freer).join()).expect("a free failed");
            }
            for block in thin_out(&mut oracle, again, keep + round) {
                oracle.dealloc(block);
            }
            hakmem_core::c::trim();
        }
        ranges.assert_empty();
    }
}

/// Threads that leave a few blocks in each page to others, while one gives everything back all the
/// time.
#[test]
fn pages_are_parked_and_unparked_by_many() {
    let _turn = turn();
    let (ranges, pool, done) = (
        Ranges::default(),
        Mutex::new(Vec::<Block>::new()),
        AtomicBool::new(false),
    );
    thread::scope(|scope| {
        let purger = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Relaxed) || rounds == 0 {
                hakmem_core::c::trim();
                rounds += 1;
            }
        });
        let workers: Vec<_> = (0..4u64)
            .map(|number| {
                let (ranges, pool) = (&ranges, &pool);
                scope.spawn(move || {
                    let mut oracle = Oracle::new(Rust, ranges, number + 7);
                    for round in 0..share(60) {
                        let size = SIZES[(round + number as usize) % SIZES.len()];
                        let count = (share(2 << 20).max(1 << 19) / size).min(20_000);
                        let blocks = (0..count).map(|_| oracle.alloc(layout(size))).collect();
                        let kept = thin_out(&mut oracle, blocks, (40_000 / size).max(3) - 1);
                        let others = {
                            let mut pool = pool.lock().unwrap();
                            pool.extend(kept);
                            let half = pool.len() / 2;
                            pool.split_off(half)
                        };
                        others.into_iter().for_each(|block| oracle.dealloc(block));
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().expect("a worker failed");
        }
        done.store(true, Relaxed);
        purger.join().expect("the purger failed");
    });
    let mut oracle = Oracle::new(Rust, &ranges, 1);
    pool.into_inner()
        .unwrap()
        .into_iter()
        .for_each(|block| oracle.dealloc(block));
    ranges.assert_empty();
}
