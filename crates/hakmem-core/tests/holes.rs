//! Pages of which few blocks are left: what is between these goes back to the system, and nothing
//! else does.

use crate::{oracle, turn};

use oracle::{Block, FrontEnd, Oracle, Ranges, Rust, layout, page_size, share};
use std::alloc::Layout;
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

/// A program may make the system pages of its own blocks inaccessible, until it frees them.
#[test]
fn a_live_block_need_not_be_accessible() {
    let _turn = turn();
    let page = page_size();
    let layout = Layout::from_size_align(page, page).unwrap();
    let protect = |at: *mut u8, rights| {
        // SAFETY: the block is this test's, and it is system pages as a whole.
        assert_eq!(unsafe { libc::mprotect(at.cast(), page, rights) }, 0);
    };
    let blocks: Vec<*mut u8> = (0..200).map(|_| Rust.alloc(layout)).collect();
    let is_kept = |i: usize| i % 10 == 5;
    for (i, &at) in blocks.iter().enumerate() {
        assert!(!at.is_null());
        // SAFETY: the block is live, and its byte accessible. Then it is freed once, if at all.
        unsafe {
            at.write(i as u8);
            if is_kept(i) {
                protect(at, libc::PROT_NONE);
            } else {
                Rust.dealloc(at, layout);
            }
        }
    }
    let before = purged();
    hakmem_core::c::trim();
    let given = purged() - before;
    for (i, &at) in blocks.iter().enumerate().filter(|&(i, _)| is_kept(i)) {
        protect(at, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the block is live, and accessible again. It is freed once.
        unsafe {
            assert_eq!(at.read(), i as u8);
            Rust.dealloc(at, layout);
        }
    }
    assert!(given > 100 * page as u64, "no holes");
}

/// The rest of the page of such a block is allocated again.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "its blocks of 128 bytes do not fill system pages"
)]
fn a_page_with_an_inaccessible_block_serves_others() {
    let _turn = turn();
    const SIZE: usize = 128;
    let page = page_size();
    let layout = Layout::from_size_align(SIZE, 8).unwrap();
    // More pages than a core's cache has room for: there a list is followed in another way.
    let mut blocks: Vec<*mut u8> = (0..200 * 512).map(|_| Rust.alloc(layout)).collect();
    blocks.sort();
    let system_page = |at: *mut u8| at.addr() / page;
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    for of_page in blocks.chunk_by(|&a, &b| system_page(a) == system_page(b)) {
        let is_whole = of_page.len() == page / SIZE && of_page[0].addr() % page == 0;
        let side = if is_whole && system_page(of_page[0]) % 2 == 0 {
            &mut kept
        } else {
            &mut others
        };
        side.extend_from_slice(of_page);
    }
    let protect = |rights| {
        for &at in kept.iter().filter(|at| at.addr() % page == 0) {
            // SAFETY: all blocks of the system page are this test's, and live.
            assert_eq!(unsafe { libc::mprotect(at.cast(), page, rights) }, 0);
        }
    };
    protect(libc::PROT_NONE);
    let free = |at: &mut *mut u8| Rust.dealloc(*at, layout);
    let count = others.len();
    others.iter_mut().for_each(free);
    let again: Vec<*mut u8> = (0..count).map(|_| Rust.alloc(layout)).collect();
    protect(libc::PROT_READ | libc::PROT_WRITE);
    assert!(kept.len() > 4000 && count > 4000, "{}, {count}", kept.len());
    let old: std::collections::HashSet<_> = others.iter().collect();
    assert!(
        again.iter().filter(|at| old.contains(at)).count() > count / 2,
        "in fresh pages"
    );
    kept.into_iter()
        .chain(again)
        .for_each(|mut at| free(&mut at));
}
