//! The life of pages: full and asleep, awake, of few blocks and set aside, taken back, empty.
//!
//! Each runs in a process of its own, whose counts begin with nothing.
#![cfg(not(any(loom, shuttle)))]

mod oracle;

use hakmem_core::{c, options, stats};
use oracle::{Block, Oracle, Ranges, Rust, alone, elsewhere, free_all, layout};
use std::sync::mpsc;
use std::thread;

const KIB: usize = 1 << 10;

/// The pages of the classes are all that the slots say, and so many of them are asleep.
fn assert_pages(pages: u64, asleep: u64) {
    let snapshot = stats::Snapshot::take();
    let slots: u64 = snapshot.classes().map(|c| c.page_bytes).sum();
    assert_eq!(
        slots / stats::SLOT_BYTES as u64,
        snapshot.census().page_slots
    );
    let sum = |f: fn(&stats::Class) -> u64| snapshot.classes().map(|c| f(&c)).sum::<u64>();
    assert_eq!((sum(|c| c.pages), sum(|c| c.asleep_pages)), (pages, asleep));
    assert_eq!(
        sum(|c| c.new_pages + c.retained_pages - c.empty_pages),
        pages
    );
}

#[test]
fn pages_and_those_asleep_are_counted() {
    alone("pages_and_those_asleep_are_counted", || {
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

/// By others so many blocks of a full page are freed at once that, when it wakes, no more are out than of those that are set aside:
/// it counts down to its end all the same.
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
            // Its owner looks at its mail, and takes nothing.
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

/// Pages of eight blocks are left by half of these before they are set aside: the live ones lie in so many pieces.
#[test]
fn pages_of_few_blocks_are_set_aside_later() {
    alone("pages_of_few_blocks_are_set_aside_later", || {
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 10);
        let mut pages: Vec<_> = (0..10)
            .map(|_| -> Vec<_> { (0..8).map(|_| oracle.alloc(layout(8 * KIB))).collect() })
            .collect();
        let set_aside = |pages: &mut Vec<Vec<Block>>, out| {
            let gone = pages.iter_mut().flat_map(|page| page.split_off(out));
            free_all(&ranges, gone.collect());
            let snapshot = stats::Snapshot::take();
            let own = |h: &stats::Heap| h.state == stats::State::Own;
            let own = snapshot.heaps().find(own).expect("it has allocated");
            own.pages_set_aside
        };
        assert_eq!(set_aside(&mut pages, 5), 0);
        assert!(set_aside(&mut pages, 4) > 4);
        free_all(&ranges, pages.into_iter().flatten().collect());
    });
}

/// Pages that were set aside are taken back before fresh ones are claimed, whatever else was looked for in vain meanwhile.
#[test]
fn pages_set_aside_are_not_forgotten_for_others() {
    alone("pages_set_aside_are_not_forgotten_for_others", || {
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
        let pages = || stats::Snapshot::take().census().page_slots;
        assert_eq!(pages(), 20);
        // Of these none was set aside.
        blocks.extend(take(16, 4 * KIB));
        assert_eq!(pages(), 21);
        blocks.extend(take(20 * 62, 1024));
        assert_eq!(pages(), 21);
        free_all(&ranges, blocks);
    });
}

/// What was freed of pages that were set aside, and is under way when these are wanted again, comes back by way of who has them
/// then.
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
                // More pages than it has parcels for: some wait to be sent to who had the page then.
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

/// Also where each block that another thread frees is sent by itself, and none waits for others of its page.
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
