//! The life of pages: full, unfull, parked, unparked, empty.
//!
//! Each runs in a process of its own, whose counts begin with nothing.
#![cfg(not(any(loom, shuttle)))]

use crate::oracle;

use hakmem_core::{c, options, stats};
use oracle::{Block, Oracle, Ranges, Rust, alone, elsewhere, free_all, layout, page_size};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

const KIB: usize = 1 << 10;

/// The pages of the classes are all that the slots say, and so many of them are full.
fn assert_pages(pages: u64, full: u64) {
    let snapshot = stats::Snapshot::take();
    let slots: u64 = snapshot.classes().map(|c| c.page_bytes).sum();
    assert_eq!(
        slots / stats::SLOT_BYTES as u64,
        snapshot.heap_walk().page_slots
    );
    let sum = |f: fn(&stats::Class) -> u64| snapshot.classes().map(|c| f(&c)).sum::<u64>();
    assert_eq!((sum(|c| c.pages), sum(|c| c.full_pages)), (pages, full));
    assert_eq!(sum(|c| c.new_pages + c.cached_pages - c.empty_pages), pages);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn pages_and_those_full_are_counted() {
    alone("pages_and_those_full_are_counted", || {
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 7);
        let mut take =
            |count| -> Vec<_> { (0..count).map(|_| oracle.alloc(layout(1024))).collect() };
        let mut blocks = take(4 * 64);
        assert_pages(4, 3);
        blocks.extend(take(1));
        assert_pages(5, 4);
        // An eighth of the first one.
        free_all(&ranges, blocks.drain(..7).collect());
        assert_pages(5, 4);
        free_all(&ranges, blocks.drain(..1).collect());
        assert_pages(5, 3);
        free_all(&ranges, blocks.drain(..56).collect());
        assert_pages(4, 3);
        // The empty page is at hand, for any class.
        let other = Oracle::new(Rust, &ranges, 8).alloc(layout(500));
        assert_pages(5, 3);
        free_all(&ranges, blocks);
        free_all(&ranges, vec![other]);
        c::trim();
        assert_pages(0, 0);
    });
}

/// A full page of tiny blocks comes back once 32 of them are free: an eighth would be 128.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn pages_of_tiny_blocks_come_back_after_32_frees() {
    alone("pages_of_tiny_blocks_come_back_after_32_frees", || {
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 11);
        let mut blocks: Vec<_> = (0..1025).map(|_| oracle.alloc(layout(64))).collect();
        assert_pages(2, 1);
        free_all(&ranges, blocks.drain(..31).collect());
        assert_pages(2, 1);
        free_all(&ranges, blocks.drain(..1).collect());
        assert_pages(2, 0);
        free_all(&ranges, blocks);
    });
}

/// By others so many blocks of a full page are freed at once that, when it unfulled, no more are
/// out than of those that are parked: it counts down to its end all the same.
#[test]
fn pages_that_wake_almost_empty_come_back() {
    alone("pages_that_wake_almost_empty_come_back", || {
        for left in 6..=10 {
            let ranges = Ranges::default();
            let mut oracle = Oracle::new(Rust, &ranges, 9);
            let mut take =
                |count| -> Vec<_> { (0..count).map(|_| oracle.alloc(layout(1024))).collect() };
            let mut blocks = take(3 * 64 + 1);
            assert_pages(4, 3);
            let rest = blocks.split_off(64);
            let last = blocks.split_off(64 - left);
            elsewhere(|| free_all(&ranges, blocks));
            // Its owner looks into its inbox, and takes nothing.
            c::trim();
            free_all(&ranges, last);
            c::trim();
            assert_pages(3, 2);
            free_all(&ranges, rest);
            c::trim();
            assert_pages(0, 0);
        }
    });
}

/// A page is parked only when at most a quarter of it is used: in a page of eight blocks, two.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn pages_of_few_blocks_are_parked_when_a_quarter_is_used() {
    alone(
        "pages_of_few_blocks_are_parked_when_a_quarter_is_used",
        || {
            let ranges = Ranges::default();
            let mut oracle = Oracle::new(Rust, &ranges, 10);
            // The heap's list keeps eight freed blocks, so two of the pages are not parked.
            let mut pages: Vec<_> = (0..12)
                .map(|_| -> Vec<_> { (0..8).map(|_| oracle.alloc(layout(8 * KIB))).collect() })
                .collect();
            let park = |pages: &mut Vec<Vec<Block>>, out| {
                let gone = pages.iter_mut().flat_map(|page| page.split_off(out));
                free_all(&ranges, gone.collect());
                let snapshot = stats::Snapshot::take();
                let own = |h: &stats::ThreadHeap| h.state == stats::HeapUse::Own;
                let own = snapshot.heaps().find(own).expect("it has allocated");
                own.pages_parked
            };
            assert_eq!(park(&mut pages, 8), 0);
            assert_eq!(park(&mut pages, 3), 0);
            assert!(park(&mut pages, 2) > 4);
            free_all(&ranges, pages.into_iter().flatten().collect());
        },
    );
}

/// Pages that were parked are unparked before fresh ones are claimed, whatever else was looked for
/// in vain meanwhile.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn parked_pages_are_not_forgotten_for_others() {
    alone("parked_pages_are_not_forgotten_for_others", || {
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 11);
        let mut take =
            |count, size| -> Vec<_> { (0..count).map(|_| oracle.alloc(layout(size))).collect() };
        let mut blocks = Vec::new();
        for (i, block) in take(20 * 64, 1024).into_iter().enumerate() {
            if i % 64 < 2 {
                blocks.push(block);
            } else {
                free_all(&ranges, vec![block]);
            }
        }
        c::trim();
        let pages = || stats::Snapshot::take().heap_walk().page_slots;
        assert_eq!(pages(), 20);
        // Of these none was parked.
        blocks.extend(take(16, 4 * KIB));
        assert_eq!(pages(), 21);
        blocks.extend(take(20 * 62, 1024));
        assert_eq!(pages(), 21);
        free_all(&ranges, blocks);
    });
}

/// What was freed of pages that were parked, and is under way when these are wanted again, comes
/// back by way of who has them then.
#[test]
fn blocks_under_way_follow_their_page() {
    alone("blocks_under_way_follow_their_page", || {
        const PAGES: usize = 100;
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 12);
        let mut take =
            |count| -> Vec<_> { (0..count).map(|_| oracle.alloc(layout(1024))).collect() };
        let (mut theirs, mut mine) = (Vec::new(), Vec::new());
        for (i, block) in take((PAGES + 1) * 64).into_iter().enumerate() {
            match i % 64 {
                0 => theirs.push(block),
                1 | 2 => mine.push(block),
                _ => free_all(&ranges, vec![block]),
            }
        }
        c::trim();
        let (freed, has_freed) = mpsc::channel();
        let (go_on, is_taken) = mpsc::channel();
        thread::scope(|scope| {
            let ranges = &ranges;
            let freer = scope.spawn(move || {
                // More pages than it has batches for: some wait to be sent to who had the page
                // then.
                free_all(ranges, theirs);
                freed.send(()).unwrap();
                is_taken.recv().unwrap();
            });
            has_freed.recv().unwrap();
            mine.extend(take(PAGES * 61));
            go_on.send(()).unwrap();
            freer.join().expect("the thread failed");
        });
        c::trim();
        free_all(&ranges, mine);
        c::trim();
        assert_pages(0, 0);
        let now = stats::process();
        assert_eq!((now.live_bytes, now.in_flight), (0, 0));
    });
}

/// Also where each block that another thread frees is sent by itself, and none waits for others of
/// its page.
#[test]
fn blocks_that_travel_alone_come_back() {
    alone("blocks_that_travel_alone_come_back", || {
        options::set("BATCH_BY_PAGE", "0").unwrap();
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 13);
        for count in [1, 3, 200] {
            let blocks: Vec<_> = (0..count).map(|_| oracle.alloc(layout(1024))).collect();
            elsewhere(|| free_all(&ranges, blocks));
            c::trim();
            assert_pages(0, 0);
            let now = stats::process();
            assert_eq!((now.live_bytes, now.in_flight), (0, 0));
        }
    });
}

/// As a program of many threads has them that do little each: mixed, up to 1 KiB.
fn mixed(number: usize) -> usize {
    16 + (number.wrapping_mul(2_654_435_761) >> 7) % 1009
}

/// 200 threads with 50 blocks each. What a thread costs beside its blocks is bounded. Other threads
/// can have its blocks from the moment it frees them. The system gets the memory back while all the
/// threads are there.
fn many_threads() {
    const THREADS: usize = 200;
    const BLOCKS: usize = 50;
    // The first of them have pages of their own.
    const FIRST: usize = 33;
    let (ranges, handed) = (Ranges::default(), Mutex::new(Vec::new()));
    let before = stats::process();
    let turn = Barrier::new(THREADS + 1);
    let life = |number: usize| {
        let mut oracle = Oracle::new(Rust, &ranges, number as u64);
        let mut take = |i: usize| {
            let layout = layout(mixed(number * BLOCKS + i));
            if i.is_multiple_of(2) {
                oracle.alloc(layout)
            } else {
                oracle.alloc_zeroed(layout)
            }
        };
        let mut blocks: Vec<_> = (0..BLOCKS).map(&mut take).collect();
        turn.wait();
        turn.wait();
        // Some are freed by another thread.
        let own = blocks.split_off(BLOCKS / 5);
        handed.lock().unwrap().extend(blocks);
        free_all(&ranges, own);
        turn.wait();
        turn.wait();
    };
    thread::scope(|scope| {
        let life = &life;
        for number in 0..THREADS {
            scope.spawn(move || life(number));
        }
        turn.wait();
        let of_blocks: usize = (0..THREADS * BLOCKS).map(mixed).sum();
        let (resident, during) = (stats::resident_bytes() as usize, stats::process());
        turn.wait();
        turn.wait();
        free_all(&ranges, std::mem::take(&mut handed.lock().unwrap()));
        c::trim();
        let (resident_after, after) = (stats::resident_bytes() as usize, stats::process());
        turn.wait();
        // Rounding to classes is 8 %; without sharing each thread has 20 system pages.
        let most = of_blocks + of_blocks / 5 + FIRST * 25 * page_size();
        assert!(
            (of_blocks..most).contains(&resident),
            "{resident} of {of_blocks}"
        );
        assert!(during.live_bytes - before.live_bytes >= of_blocks as u64);
        // The first threads keep their own pages. All that the others had goes back.
        let of_others = of_blocks / THREADS * (THREADS - FIRST);
        assert!(
            resident_after < resident - of_others,
            "{resident_after} of {resident}"
        );
        // Those of the first threads' own pages are not counted while these run.
        assert!(after.frees - before.frees >= ((THREADS - FIRST) * BLOCKS) as u64);
    });
    while stats::Snapshot::take().running_heaps() > 0 {
        thread::yield_now();
    }
    c::trim();
    assert_pages(0, 0);
    let after = stats::process();
    let count = (THREADS * BLOCKS) as u64;
    assert_eq!(
        (
            after.allocations - before.allocations,
            after.frees - before.frees
        ),
        (count, count)
    );
    assert_eq!(
        (after.live_bytes, after.dirty_bytes, after.in_flight),
        (before.live_bytes, 0, 0)
    );
    ranges.assert_empty();
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn first_blocks_of_many_threads_lie_side_by_side() {
    alone(
        "first_blocks_of_many_threads_lie_side_by_side",
        many_threads,
    );
}

/// A thread that goes on allocating has pages of its own after a while; and others go on with what
/// it leaves.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn who_goes_on_has_pages_of_its_own() {
    alone("who_goes_on_has_pages_of_its_own", || {
        options::set("SHARED_FROM_HEAPS", "1").unwrap();
        let ranges = Ranges::default();
        let first = Oracle::new(Rust, &ranges, 1).alloc(layout(100));
        let pages_of = || {
            stats::Snapshot::take()
                .classes()
                .find(|c| c.size == 1024)
                .map(|c| c.pages)
        };
        let take = |count| -> Vec<_> {
            let mut oracle = Oracle::new(Rust, &ranges, 2);
            (0..count).map(|_| oracle.alloc(layout(1024))).collect()
        };
        // Sixteen are of a shared page, 16 KiB.
        let blocks = elsewhere(|| {
            let mut blocks = take(15);
            assert_eq!(pages_of(), Some(1));
            blocks.extend(take(64));
            assert_eq!(pages_of(), Some(2));
            blocks
        });
        // So the next thread, which has its heap, does too: the shared page first, then the own one
        // of before.
        let others = elsewhere(|| take(60));
        assert_eq!(pages_of(), Some(3));
        free_all(&ranges, blocks);
        elsewhere(|| free_all(&ranges, others));
        free_all(&ranges, vec![first]);
        c::trim();
        assert_pages(0, 0);
        ranges.assert_empty();
    });
}
