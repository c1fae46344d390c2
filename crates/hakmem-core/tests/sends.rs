//! What a thread frees for others: when it sends the blocks, and what becomes of whole pages.
//!
//! Each runs in a process of its own, whose counts begin with nothing.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::{c, options, stats};
use oracle::{Block, Oracle, Ranges, Rust, alone, elsewhere, free_all, layout};
use std::sync::{Barrier, Mutex};
use std::thread;

/// The counts of the calling thread's heap.
fn own() -> stats::ThreadHeap {
    let is_own = |heap: &stats::ThreadHeap| heap.state == stats::HeapUse::Own;
    let snapshot = stats::Snapshot::take();
    snapshot.heaps().find(is_own).expect("it has allocated")
}

/// A thread that has all blocks of another's full page keeps the page for itself, if it has fewer
/// than four such pages. Else the page goes back to its segment.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn whole_pages_of_others_are_at_hand() {
    alone("whole_pages_of_others_are_at_hand", || {
        const OF_PAGE: usize = 64;
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 20);
        let first = oracle.alloc(layout(48));
        let theirs = elsewhere(|| {
            let mut oracle = Oracle::new(Rust, &ranges, 21);
            (0..6 * OF_PAGE + 1)
                .map(|_| oracle.alloc(layout(1024)))
                .collect::<Vec<_>>()
        });
        let pages = || {
            let snapshot = stats::Snapshot::take();
            let walk = snapshot.heap_walk();
            (walk.page_slots, walk.kept_slots)
        };
        assert_eq!(pages(), (8, 0));
        let before = own();
        free_all(&ranges, theirs);
        // Six pages end when the thread needs one. The last page has a block, and is not full.
        let mine: Vec<Block> = [200, 300, 400, 500, 600]
            .map(|size| oracle.alloc(layout(size)))
            .into();
        let after = own();
        assert_eq!(after.cached_pages - before.cached_pages, 4);
        assert_eq!(after.new_pages - before.new_pages, 1);
        assert_eq!(pages(), (7, 0));
        free_all(&ranges, mine);
        free_all(&ranges, vec![first]);
    });
}

/// A thread that frees for many others holds more of their blocks before it sends them.
#[test]
#[cfg_attr(feature = "hardened", ignore = "exact figures of blocks without tags")]
fn who_frees_for_many_sends_less_often() {
    alone("who_frees_for_many_sends_less_often", || {
        const THREADS: usize = 256;
        const BLOCKS: usize = 3 * 8;
        options::set("SHARED_FROM_HEAPS", "0").unwrap();
        options::set("SCAVENGER", "0").unwrap();
        let ranges = Ranges::default();
        let first = Oracle::new(Rust, &ranges, 22).alloc(layout(48));
        let (turn, theirs) = (Barrier::new(THREADS + 1), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (ranges, turn, theirs) = (&ranges, &turn, &theirs);
                scope.spawn(move || {
                    let mut oracle = Oracle::new(Rust, ranges, number as u64);
                    let blocks = (0..BLOCKS).map(|_| oracle.alloc(layout(128)));
                    let blocks: Vec<_> = blocks.collect();
                    theirs.lock().unwrap().push(blocks);
                    turn.wait();
                    turn.wait();
                });
            }
            turn.wait();
            // 768 KiB: the first 256 KiB are sent, and then 512 KiB are held.
            let mut theirs = std::mem::take(&mut *theirs.lock().unwrap());
            for _ in 0..BLOCKS {
                let each = theirs.iter_mut().filter_map(Vec::pop);
                free_all(&ranges, each.collect());
            }
            let sent = own().chains_sent;
            turn.wait();
            assert_eq!(sent, THREADS as u64);
        });
        free_all(&ranges, vec![first]);
    });
}

/// Blocks above 1 KiB that another thread allocated stay with the thread that frees them, and go
/// home when it has no use for them.
fn larger_blocks() {
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(Rust, &ranges, 23);
    let first = oracle.alloc(layout(48));
    for (size, kept) in [(1100, 6), (2000, 4), (5000, 2), (16_000, 2), (60_000, 2)] {
        let of_another = || {
            elsewhere(|| {
                let mut oracle = Oracle::new(Rust, &ranges, 24);
                (0..8)
                    .map(|_| oracle.alloc(layout(size)))
                    .collect::<Vec<_>>()
            })
        };
        let sent = own().blocks_sent;
        free_all(&ranges, of_another());
        assert_eq!(
            own().blocks_sent - sent,
            8,
            "a thread that only frees keeps nothing of {size} bytes"
        );
        // Its list was full, and is empty now: so it becomes longer.
        let mine = oracle.alloc(layout(size));
        let theirs = of_another();
        let places: Vec<_> = theirs.iter().map(Block::address).collect();
        let sent = own().blocks_sent;
        free_all(&ranges, theirs);
        assert_eq!(own().blocks_sent - sent, 8 - kept, "of {size} bytes");
        // The first ones found room, and the last of them comes first.
        let again: Vec<_> = (0..kept).map(|_| oracle.alloc(layout(size))).collect();
        let places = places[..kept as usize].iter().rev();
        assert!(
            again.iter().map(Block::address).eq(places.copied()),
            "of {size} bytes"
        );
        free_all(&ranges, again);
        free_all(&ranges, vec![mine]);
    }
    free_all(&ranges, vec![first]);
    hakmem_core::thread_idle();
    hakmem_core::purge_all();
    assert_eq!(stats::process().live_bytes_upper_bound, 0, "all went home");
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn larger_blocks_of_others_are_allocated_again() {
    alone("larger_blocks_of_others_are_allocated_again", larger_blocks);
}

/// A thread whose batches have one block each keeps small blocks of others, if it allocates such
/// blocks, too. It sends those of one page.
fn scattered_blocks() {
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(Rust, &ranges, 25);
    let first = oracle.alloc(layout(40));
    // The bytes of a block, how many of one page follow each other, and whether the thread
    // keeps them.
    for (size, run, is_kept) in [
        (320, 3, false),
        (256, 1, true),
        (1024, 1, true),
        (48, 1, false),
    ] {
        let mut theirs = elsewhere(|| scattered(&ranges, 26, size));
        if run > 1 {
            // Of `run` blocks of each page, those of one page follow each other.
            for blocks in theirs.chunks_mut(run * PAGES) {
                blocks.sort_by_key(|block| block.address() / (64 << 10));
            }
        }
        let mut free = |count: usize| {
            let before = own().blocks_sent;
            let blocks: Vec<_> = theirs.drain(..count).collect();
            let places: Vec<_> = blocks.iter().map(Block::address).collect();
            free_all(&ranges, blocks);
            (own().blocks_sent - before, places)
        };
        let count = 3 * PAGES;
        assert_eq!(
            free(count).0,
            count as u64,
            "it has allocated no block of {size} bytes"
        );
        let mine = oracle.alloc(layout(size));
        let (sent, places) = free(8);
        // First what its own list has, then what it kept.
        let again: Vec<_> = (0..(64 << 10) / size)
            .map(|_| oracle.alloc(layout(size)))
            .collect();
        if is_kept {
            assert_eq!(sent, 0, "{size} bytes");
            let newest = places[7];
            let again = again
                .iter()
                .map(Block::address)
                .skip_while(|&p| p != newest);
            assert!(again.take(8).eq(places.into_iter().rev()), "{size} bytes");
        } else {
            assert_eq!(sent, 8, "{size} bytes");
        }
        free_all(&ranges, again);
        free_all(&ranges, theirs);
        free_all(&ranges, vec![mine]);
    }
    free_all(&ranges, vec![first]);
    hakmem_core::thread_idle();
    hakmem_core::purge_all();
    assert_eq!(stats::process().live_bytes_upper_bound, 0, "all went home");
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn scattered_blocks_of_others_are_allocated_again() {
    alone(
        "scattered_blocks_of_others_are_allocated_again",
        scattered_blocks,
    );
}

/// Behind a filter no block gets a guarded place, so the lists keep blocks of others as ever.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn behind_a_filter_blocks_of_others_are_allocated_again() {
    alone(
        "behind_a_filter_blocks_of_others_are_allocated_again",
        || {
            c::set_filtered(true);
            options::set("GUARD_SAMPLE", "2").unwrap();
            larger_blocks();
            elsewhere(scattered_blocks);
        },
    );
}

/// The pages of scattered blocks.
const PAGES: usize = 160;

/// [`scattered_over`] `PAGES` pages.
fn scattered(ranges: &Ranges, seed: u64, size: usize) -> Vec<Block> {
    scattered_over(PAGES, ranges, seed, size)
}

/// The calling thread allocates `pages` pages of blocks of `size` bytes. One block of each page
/// comes after the other.
fn scattered_over(pages: usize, ranges: &Ranges, seed: u64, size: usize) -> Vec<Block> {
    options::set("SHARED_FROM_HEAPS", "0").unwrap();
    options::set("SCAVENGER", "0").unwrap();
    options::set("BATCH_BYTES", &(pages * size).to_string()).unwrap();
    let of_page = (64 << 10) / size;
    let mut oracle = Oracle::new(Rust, ranges, seed);
    let blocks = (0..pages * of_page).map(|_| oracle.alloc(layout(size)));
    let mut blocks: Vec<_> = blocks.map(Some).collect();
    let order = (0..of_page).flat_map(|i| (0..pages).map(move |page| page * of_page + i));
    order.map(|i| blocks[i].take().unwrap()).collect()
}

/// A thread that frees scattered blocks and allocates none keeps none of them: else they would keep
/// pages while it sleeps.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "the hardened build keeps no block of others"
)]
fn scattered_blocks_go_home_from_a_thread_that_only_frees() {
    alone(
        "scattered_blocks_go_home_from_a_thread_that_only_frees",
        || {
            const SIZE: usize = 256;
            let ranges = Ranges::default();
            let mut oracle = Oracle::new(Rust, &ranges, 27);
            // So this thread has a heap, and does not take the other one's.
            let first = oracle.alloc(layout(40));
            let blocks = elsewhere(|| scattered(&ranges, 28, SIZE));
            let all = blocks.len();
            let mut blocks = blocks.into_iter();
            let mut free = |count: usize| free_all(&ranges, blocks.by_ref().take(count).collect());
            free(3 * PAGES);
            let mine = oracle.alloc(layout(SIZE));
            let before = own().blocks_sent;
            free(100);
            assert!(own().blocks_sent < before + 100, "it keeps some");
            free(all);
            assert_eq!(own().blocks_sent, all as u64, "all are on their way home");
            free_all(&ranges, vec![mine, first]);
        },
    );
}

/// Scattered blocks of parked pages go home, although the thread allocates: else blocks that it
/// allocates would lie on all these pages, of which none could go back.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "the hardened build keeps no block of others"
)]
fn scattered_blocks_of_parked_pages_go_home() {
    alone("scattered_blocks_of_parked_pages_go_home", || {
        const SIZE: usize = 256;
        const LEFT: usize = 20;
        let ranges = Ranges::default();
        // This thread owns all pages. It parks those of which few blocks are left, but for some
        // that it keeps at hand.
        let mut blocks = scattered(&ranges, 30, SIZE);
        let left = blocks.split_off(blocks.len() - LEFT * PAGES);
        free_all(&ranges, blocks);
        let parked = own().pages_parked;
        assert!(parked >= PAGES as u64 - 12, "{parked}");
        let mut left = left.into_iter();
        let mut sent = |count: usize| {
            let before = own().blocks_sent;
            free_all(&ranges, left.by_ref().take(count).collect());
            own().blocks_sent - before
        };
        sent(3 * PAGES);
        // Its list is short, and not empty.
        let mut oracle = Oracle::new(Rust, &ranges, 31);
        let mine: Vec<_> = (0..200).map(|_| oracle.alloc(layout(SIZE))).collect();
        sent(PAGES);
        let sent = sent(2 * PAGES);
        assert!(sent >= PAGES as u64, "{sent}");
        free_all(&ranges, mine);
        free_all(&ranges, left.collect());
    });
}

/// A heap whose frees are scattered waits until it has many bytes before it sends them. What is for
/// parked pages it sends before it takes a page: a few bytes may be all that keeps such a page.
#[test]
#[cfg_attr(feature = "hardened", ignore = "exact figures of blocks without tags")]
fn the_last_blocks_of_parked_pages_do_not_wait() {
    alone("the_last_blocks_of_parked_pages_do_not_wait", || {
        const SIZE: usize = 256;
        const OPEN: usize = 64;
        let ranges = Ranges::default();
        let mut blocks = scattered(&ranges, 32, SIZE);
        let left = blocks.split_off(blocks.len() - 4 * PAGES);
        free_all(&ranges, blocks);
        // Each is in a batch of its own. So after some sends the heap's frees are scattered.
        free_all(&ranges, left);
        let before = own().chains_sent;
        options::set("BATCH_BYTES", "1048576").unwrap();
        let mut oracle = Oracle::new(Rust, &ranges, 33);
        let mine: Vec<_> = [48, 64, 80].map(|size| oracle.alloc(layout(size))).into();
        let after = own();
        let pages = stats::Snapshot::take().heap_walk().page_slots;
        assert_eq!(after.chains_sent - before, 1);
        assert!(pages <= (OPEN + 12) as u64, "{pages}");
        free_all(&ranges, mine);
    });
}

/// A thread that only frees takes no page. It sends what is for many parked pages all the same.
#[test]
#[cfg_attr(feature = "hardened", ignore = "exact figures of blocks without tags")]
fn a_thread_that_only_frees_keeps_few_parked_pages() {
    alone("a_thread_that_only_frees_keeps_few_parked_pages", || {
        const SIZE: usize = 1024;
        const PAGES: usize = 700;
        let ranges = Ranges::default();
        let mut blocks = scattered_over(PAGES, &ranges, 34, SIZE);
        options::set("BATCH_BYTES", "1048576").unwrap();
        let left = blocks.split_off(blocks.len() - PAGES);
        free_all(&ranges, blocks);
        let sent = elsewhere(|| {
            let mut oracle = Oracle::new(Rust, &ranges, 35);
            let first = oracle.alloc(layout(48));
            free_all(&ranges, left);
            let sent = own().chains_sent;
            free_all(&ranges, vec![first]);
            sent
        });
        assert_eq!(sent, 2);
    });
}

/// What a heap learnt of a thread that has ended does not make the next one keep blocks.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "the hardened build keeps no block of others"
)]
fn scattered_blocks_go_home_from_the_next_thread_of_a_heap() {
    alone(
        "scattered_blocks_go_home_from_the_next_thread_of_a_heap",
        || {
            const SIZE: usize = 256;
            let ranges = Ranges::default();
            // This thread owns all blocks, and one after the other frees some of them.
            let blocks = scattered(&ranges, 27, SIZE);
            let all = blocks.len();
            let mut blocks = blocks.into_iter();
            let mut free = |count: usize| free_all(&ranges, blocks.by_ref().take(count).collect());
            // One thread keeps some, and one could have.
            for kept in [100, 0] {
                elsewhere(|| {
                    free(3 * PAGES);
                    let mut oracle = Oracle::new(Rust, &ranges, 28);
                    let mine = oracle.alloc(layout(SIZE));
                    let before = own().blocks_sent;
                    free(kept);
                    let sent = own().blocks_sent - before;
                    assert!(kept == 0 || sent < kept as u64, "it keeps some");
                    free_all(&ranges, vec![mine]);
                });
                elsewhere(|| {
                    let mut oracle = Oracle::new(Rust, &ranges, 29);
                    let first = oracle.alloc(layout(40));
                    let heaps = stats::Snapshot::take().heaps().count();
                    assert_eq!(heaps, 2, "it has that heap");
                    let before = own().blocks_sent;
                    free(50);
                    assert_eq!(own().blocks_sent, before + 50, "it keeps none");
                    free_all(&ranges, vec![first]);
                });
            }
            free(all);
        },
    );
}

/// What a thread kept goes home once its frees are scattered no more, although it calls on.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "the hardened build keeps no block of others"
)]
fn what_was_kept_goes_home_when_frees_are_scattered_no_more() {
    alone(
        "what_was_kept_goes_home_when_frees_are_scattered_no_more",
        || {
            const SIZE: usize = 256;
            let ranges = Ranges::default();
            let mut oracle = Oracle::new(Rust, &ranges, 36);
            let first = oracle.alloc(layout(40));
            let mut theirs = elsewhere(|| scattered(&ranges, 37, SIZE)).into_iter();
            let mut free = |count: usize| free_all(&ranges, theirs.by_ref().take(count).collect());
            free(3 * PAGES);
            let mine = oracle.alloc(layout(SIZE));
            let before = own().blocks_sent;
            // The list of the size, and what is kept apart of it, get 48 KiB each.
            let half = (48 << 10) / SIZE;
            free(2 * half);
            assert_eq!(own().blocks_sent, before, "it keeps all");
            // These are of few pages: each batch has many blocks.
            let other = elsewhere(|| {
                let mut oracle = Oracle::new(Rust, &ranges, 38);
                (0..2000).map(|_| oracle.alloc(layout(48))).collect()
            });
            free_all(&ranges, other);
            free(1);
            let sent = (own().blocks_sent - before) as usize;
            assert_eq!(sent, half + 2000 + 1, "what was apart is on its way home");
            // Scattered again. That blocks went home was no refill: so the list goes home, too.
            let before = own().blocks_sent;
            free(3 * PAGES);
            let sent = (own().blocks_sent - before) as usize;
            assert_eq!(sent, 3 * PAGES + half, "it keeps none");
            free_all(&ranges, vec![mine, first]);
            free_all(&ranges, theirs.collect());
        },
    );
}
