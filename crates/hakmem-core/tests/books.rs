//! The books: what was taken comes back, to the block and to the byte, whoever freed it.
//!
//! A leak is not felt by a program that checks its own blocks. Here the process's totals are
//! compared before and after.

use crate::{oracle, turn};

use hakmem_core::{c, stats};
use oracle::{Block, C, Oracle, Ranges, Rust, alone, elsewhere, free_all, layout, page_size};
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Bytes of a block, and how many of them are taken.
const KINDS: [(usize, usize); 12] = [
    (8, 30_000),
    (16, 9_000),
    (64, 5_000),
    (120, 3_000),
    (1024, 500),
    (4096, 200),
    (8 * KIB, 100),
    (12 * KIB, 100),
    (64 * KIB, 40),
    (192 * KIB, 20),
    (MIB, 9),
    (4 * MIB, 7),
];

/// After `count` blocks of `size` bytes came and went since `before`, and everything free was given
/// back.
fn assert_balanced(before: &stats::Stats, size: usize, count: usize) {
    c::trim();
    let after = stats::process();
    let what = format!("{count} blocks of {size} bytes");
    assert_eq!(
        after.allocations - before.allocations,
        count as u64,
        "{what}"
    );
    assert_eq!(after.frees - before.frees, count as u64, "{what}");
    assert_eq!(after.live_bytes, before.live_bytes, "{what}");
    assert_eq!(after.dirty_bytes, 0, "{what}");
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn blocks_that_come_and_go_leave_nothing() {
    let _turn = turn();
    for (size, count) in KINDS {
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, size as u64);
        let mut committed = 0;
        for round in 0..3 {
            let before = stats::process();
            let blocks: Vec<_> = (0..count).map(|_| oracle.alloc(layout(size))).collect();
            let during = stats::process();
            assert_eq!(
                during.allocations - before.allocations,
                count as u64,
                "{size}"
            );
            let least = (count * size) as u64;
            let grown = during.live_bytes - before.live_bytes;
            // The last page is carved in steps; huge blocks are whole segments.
            let most = least + least / 16 + (128 * KIB) as u64;
            assert!(
                (least..=most).contains(&grown),
                "{size}: {grown} of {least} live"
            );
            assert!(
                during.peak_live_bytes_upper_bound >= during.live_bytes,
                "{size}"
            );
            let backwards = round == 1;
            let ordered: Vec<_> = if backwards {
                blocks.into_iter().rev().collect()
            } else {
                blocks
            };
            ordered.into_iter().for_each(|block| oracle.dealloc(block));
            assert_balanced(&before, size, count);
            let now = stats::process().committed_bytes;
            assert!(
                round == 0 || now <= committed,
                "{size}: {now} committed after {committed}"
            );
            committed = now;
        }
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn blocks_freed_by_others_come_back() {
    let _turn = turn();
    for (size, count) in KINDS {
        for everything in [true, false] {
            let ranges = Ranges::default();
            let before = stats::process();
            let mut oracle = Oracle::new(Rust, &ranges, size as u64);
            let mut blocks: Vec<_> = (0..count).map(|_| oracle.alloc(layout(size))).collect();
            // Some by a thread that has a heap of its own by then, the rest by one that has none.
            let rest = blocks.split_off(if everything { count } else { count / 3 });
            elsewhere(|| {
                let mut other = Oracle::new(Rust, &ranges, 2);
                let own = other.alloc(layout(100));
                free_all(&ranges, blocks);
                other.dealloc(own);
            });
            elsewhere(|| free_all(&ranges, rest));
            c::trim();
            let after = stats::process();
            assert_eq!(after.live_bytes, before.live_bytes, "{size}");
            assert_eq!(after.frees - before.frees, count as u64 + 1, "{size}");
            assert_eq!(
                after.allocations - before.allocations,
                count as u64 + 1,
                "{size}"
            );
            assert_eq!(after.dirty_bytes, 0, "{size}");
            ranges.assert_empty();
        }
    }
}

/// Bytes in the pages of the class of `size`.
fn page_bytes(size: usize) -> u64 {
    let snapshot = stats::Snapshot::take();
    let class = snapshot.classes().find(|class| class.size >= size as u64);
    class.map_or(0, |class| class.page_bytes)
}

/// A thread that sleeps cannot merge what others free of its blocks. Its pages come back all the
/// same once all their blocks are free.
#[test]
fn pages_of_a_thread_that_sleeps_come_back() {
    let _turn = turn();
    const PAGES: usize = 100;
    for (size, shuffled) in [
        (16, false),
        (208, false),
        (208, true),
        (12 * KIB, false),
        (12 * KIB, true),
    ] {
        let count = PAGES * if size > 8 * KIB { 42 } else { 64 * KIB / size };
        let ranges = Ranges::default();
        let (before, pages_before) = (stats::process(), page_bytes(size));
        let (send, receive) = mpsc::channel();
        let (wake, sleep) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let ranges = &ranges;
            let sleeper = scope.spawn(move || {
                let mut oracle = Oracle::new(Rust, ranges, size as u64);
                let blocks: Vec<_> = (0..count).map(|_| oracle.alloc(layout(size))).collect();
                send.send(blocks).unwrap();
                sleep.recv().unwrap_err();
            });
            let mut blocks = receive.recv().unwrap();
            if shuffled {
                // A step that is prime to the count visits each block once.
                let order = (0..count).map(|i| i * 7919 % count);
                let mut places: Vec<_> = blocks.into_iter().map(Some).collect();
                blocks = order.map(|i| places[i].take().unwrap()).collect();
            }
            let full = stats::process().live_bytes;
            free_all(ranges, blocks);
            // Sends the last batches, and makes a pass.
            c::trim();
            c::trim();
            let after = stats::process();
            let left = after.live_bytes.saturating_sub(before.live_bytes);
            let taken = full - before.live_bytes;
            assert!(left * 20 <= taken, "{size}: {left} of {taken} live");
            let pages = page_bytes(size) - pages_before;
            assert!(
                pages * 20 <= taken,
                "{size}: {pages} bytes of pages of {taken}"
            );
            drop(wake);
            // The scope's end does not wait for what the thread does when it ends.
            sleeper.join().unwrap();
        });
        assert_balanced(&before, size, count);
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn blocks_of_threads_that_ended_come_back() {
    let _turn = turn();
    for (size, count) in KINDS {
        let ranges = Ranges::default();
        let before = stats::process();
        let take = |salt| {
            let mut oracle = Oracle::new(Rust, &ranges, salt);
            (0..count)
                .map(|_| oracle.alloc(layout(size)))
                .collect::<Vec<_>>()
        };
        let blocks = elsewhere(|| take(3));
        let others = elsewhere(|| take(4));
        free_all(&ranges, blocks);
        elsewhere(|| free_all(&ranges, others));
        assert_balanced(&before, size, 2 * count);
    }
}

/// Blocks that are freed for a thread that goes on allocating are used again by it.
#[test]
fn blocks_sent_back_are_used_again() {
    let _turn = turn();
    // With the tag of the hardened build 64 KiB are a large block, which may lie behind a fence.
    let tag = if cfg!(feature = "hardened") { 8 } else { 0 };
    let kinds = KINDS.into_iter();
    for (size, count) in kinds.filter(|kind| kind.0 + tag <= 64 * KIB) {
        let ranges = Ranges::default();
        let (to_freer, for_freer) = mpsc::channel::<Vec<Block>>();
        let (done, is_done) = mpsc::channel();
        thread::scope(|scope| {
            let ranges = &ranges;
            scope.spawn(move || {
                for blocks in for_freer {
                    free_all(ranges, blocks);
                    // What is held back goes out when the thread gives everything up.
                    c::trim();
                    done.send(()).unwrap();
                }
            });
            let mut oracle = Oracle::new(Rust, ranges, size as u64);
            let mut committed = 0;
            for round in 0..20 {
                let blocks = (0..count).map(|_| oracle.alloc(layout(size))).collect();
                to_freer.send(blocks).unwrap();
                is_done.recv().unwrap();
                let now = stats::process().committed_bytes;
                assert!(
                    round < 3 || now <= committed,
                    "{size}: {now} committed after {committed}"
                );
                committed = now;
            }
            drop(to_freer);
        });
        c::trim();
    }
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn threads_after_each_other_share_a_heap() {
    let _turn = turn();
    let before = stats::process();
    let mut committed = 0;
    for round in 0..50 {
        let ranges = Ranges::default();
        elsewhere(|| {
            let mut oracle = Oracle::new(C, &ranges, round);
            let mut blocks: Vec<_> = KINDS
                .iter()
                .map(|kind| oracle.alloc(layout(kind.0)))
                .collect();
            blocks.drain(..).for_each(|block| oracle.dealloc(block));
        });
        let now = stats::process().committed_bytes;
        assert!(
            round < 2 || now <= committed,
            "{now} committed after {committed}"
        );
        committed = now;
    }
    assert!(stats::process().heaps - before.heaps <= 1);
}

/// Many at once, for each a heap, all of which are there for the next ones.
#[test]
fn heaps_of_many_threads_are_used_again() {
    let _turn = turn();
    let crowd = || {
        let barrier = std::sync::Barrier::new(40);
        thread::scope(|scope| {
            let life = || {
                let ranges = Ranges::default();
                let mut oracle = Oracle::new(C, &ranges, 1);
                let block = oracle.alloc(layout(40));
                barrier.wait();
                oracle.dealloc(block);
            };
            let threads: Vec<_> = (0..40).map(|_| scope.spawn(life)).collect();
            // Joined: the scope's end does not wait for what threads do when they end.
            threads
                .into_iter()
                .for_each(|thread| thread.join().expect("a thread failed"));
        });
        stats::process().heaps
    };
    let made = crowd();
    assert_eq!(crowd(), made);
}

/// Pages that many small blocks of different ages lie in are found full again by the next ones.
#[test]
fn gaps_are_filled_before_more_is_taken() {
    let _turn = turn();
    for (size, count) in KINDS.into_iter().filter(|kind| kind.0 <= 64 * KIB) {
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, size as u64);
        let blocks: Vec<_> = (0..count).map(|_| oracle.alloc(layout(size))).collect();
        let full = stats::process().live_bytes;
        let mut kept = Vec::new();
        for (i, block) in blocks.into_iter().enumerate() {
            if i % 2 == 0 {
                oracle.dealloc(block)
            } else {
                kept.push(block)
            }
        }
        let again = count - kept.len();
        kept.extend((0..again).map(|_| oracle.alloc(layout(size))));
        let now = stats::process().live_bytes;
        // The current page is carved to its end before the others are looked at.
        let page = if size <= 8 * KIB { 64 * KIB } else { 512 * KIB };
        assert!(now <= full + page as u64, "{size}: {now} live of {full}");
        free_all(&ranges, kept);
        c::trim();
    }
}

/// Bytes of memory that the slots of `pages` of `bytes` have.
fn resident(pages: impl IntoIterator<Item = usize>, bytes: usize) -> usize {
    let mut map = vec![0u8; bytes / (4 * KIB)];
    let mut sum = 0;
    for page in pages {
        let at = std::ptr::with_exposed_provenance_mut(page * bytes);
        // SAFETY: asks about mapped memory; a byte for each page of it.
        assert_eq!(unsafe { libc::mincore(at, bytes, map.as_mut_ptr()) }, 0);
        sum += map.iter().filter(|&&m| m & 1 != 0).count() * 4 * KIB;
    }
    sum
}

/// Of pages in which one block is live, all but what that reaches into is given back, and what is
/// taken next lies there.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn all_but_the_live_pieces_is_given_back() {
    let _turn = turn();
    // Blocks that lie in one piece of a page each: 4 KiB, or 32 KiB of a page of eight slots.
    for (size, page, piece) in [
        (1024, 64 * KIB, 4 * KIB),
        (4096, 64 * KIB, 4 * KIB),
        (32 * KIB, 512 * KIB, 32 * KIB),
    ] {
        let piece = piece.max(page_size());
        let (pages, in_page) = (48, page / size);
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 5);
        let blocks: Vec<_> = (0..pages * in_page)
            .map(|_| oracle.alloc(layout(size)))
            .collect();
        let before = stats::process();
        let mut kept = Vec::new();
        for (i, block) in blocks.into_iter().enumerate() {
            if i % in_page == in_page / 2 {
                kept.push(block)
            } else {
                oracle.dealloc(block)
            }
        }
        c::trim();
        let after = stats::process();
        let given = (after.purged_bytes - before.purged_bytes) as usize;
        let hole = page - piece;
        // One page stays with the heap, as the current one.
        assert!(
            (hole * (pages - 1)..=hole * pages).contains(&given),
            "{size}: {given} given back, {hole} of each page"
        );
        assert_eq!(after.dirty_bytes, 0, "{size}");
        // The kernel says the same.
        let starts: BTreeSet<_> = kept.iter().map(|block| block.address() / page).collect();
        let left = resident(starts, page);
        let most = piece * pages + page;
        assert!(left <= most, "{size}: {left} resident, not {most}");
        let again: Vec<_> = (0..pages * in_page - kept.len())
            .map(|_| oracle.alloc(layout(size)))
            .collect();
        let full = stats::process();
        assert_eq!(full.committed_bytes, after.committed_bytes, "{size}");
        assert_eq!(full.live_bytes, before.live_bytes, "{size}");
        free_all(&ranges, again);
        free_all(&ranges, kept);
        c::trim();
        assert_eq!(stats::process().dirty_bytes, 0, "{size}");
    }
}

/// Into pages that are full, and so in no list until enough has come back.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn frees_of_full_pages_are_counted_at_once() {
    let _turn = turn();
    for size in [64, 1024, 5000, 12 * KIB] {
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 6);
        let page = if size <= 8 * KIB { 64 * KIB } else { 512 * KIB };
        let blocks: Vec<_> = (0..3 * page / size)
            .map(|_| oracle.alloc(layout(size)))
            .collect();
        let before = stats::process();
        for (freed, block) in (1..).zip(blocks) {
            oracle.dealloc(block);
            let now = stats::process();
            assert_eq!(now.frees - before.frees, freed, "{size}");
            assert_eq!(now.allocations, before.allocations, "{size}");
        }
        c::trim();
    }
}

/// Large blocks of all lengths replaced at random: what is free in used segments is found, and the
/// fullest are used first. That is promised to the first heaps of a process, so this is a process
/// with one thread.
#[test]
fn large_blocks_that_are_replaced_take_little_more_than_they_are() {
    let name = "large_blocks_that_are_replaced_take_little_more_than_they_are";
    alone(name, replace_large_blocks);
}

fn replace_large_blocks() {
    let mut seed = 1u64;
    let mut below = |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20) as usize % bound
    };
    // SAFETY: blocks of this allocator, each freed once.
    unsafe {
        let mut live = 0;
        let mut blocks: Vec<(*mut u8, usize)> = Vec::new();
        for round in 0..6000 {
            let n = 65 * KIB + below(MIB - 65 * KIB);
            let p = c::malloc(n);
            live += n.next_multiple_of(64 * KIB);
            if round < 200 {
                blocks.push((p, n));
                continue;
            }
            let i = below(200);
            let (old, was) = std::mem::replace(&mut blocks[i], (p, n));
            live -= was.next_multiple_of(64 * KIB);
            c::free(old);
            if round % 500 == 0 {
                let segments = stats::Snapshot::take().heap_walk().slotted_segments;
                let used = segments as usize * 2 * MIB;
                assert!(used < live / 2 * 3, "{used} for {live}");
            }
        }
        blocks.into_iter().for_each(|(p, _)| c::free(p));
    }
    c::trim();
}
