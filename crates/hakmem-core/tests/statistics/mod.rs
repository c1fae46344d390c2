//! The figures against counts that were kept beside them, outside the heap under test.

mod books;
mod interrupted;

use crate::turn;
use books::{Block, Oracle, Random, assert_classes, by_class, size_by};
use hakmem_core::c;
use hakmem_core::stats::{CLASSES, HeapUse, Snapshot, Stats};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

/// A snapshot while no other thread has a heap. On a busy machine a pass of the purge may last
/// longer than a snapshot waits. Then this thread counts as running, too.
fn at_rest() -> Snapshot {
    let mut snapshots = (0..100).map(|_| Snapshot::take());
    snapshots
        .find(|s| s.running_heaps() == 0)
        .expect("other threads have heaps")
}

/// Threads allocate, free their own and each other's blocks, and end.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn totals_are_exact_once_threads_have_ended() {
    let _turn = turn();
    c::trim();
    let before = at_rest();
    let (totals_before, classes_before) = (before.process(), by_class(&before));
    let mut sum = Oracle::default();
    let mut kept: Vec<Block> = Vec::new();
    for generation in 0..3 {
        let (sender, receiver) = mpsc::channel::<Block>();
        let receiver = Mutex::new(receiver);
        let start = Barrier::new(4);
        let results: Vec<(Oracle, Vec<Block>)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|number| {
                    let (sender, receiver, start) = (sender.clone(), &receiver, &start);
                    scope.spawn(move || {
                        // All at once, or one would adopt the heap of the one before.
                        let mut oracle = Oracle::default();
                        let first = oracle.alloc(1);
                        start.wait();
                        oracle.free(first);
                        let mut random = Random(1 + number + 10 * generation);
                        let mut own: Vec<Block> = Vec::new();
                        for _ in 0..20_000 {
                            own.push(oracle.alloc(size_by(&mut random)));
                            let any = own.swap_remove(random.below(own.len()));
                            match random.below(3) {
                                0 => oracle.free(any),
                                1 => own.push(any),
                                _ => {
                                    sender.send(any).unwrap();
                                    let other = receiver.lock().unwrap().try_recv();
                                    other.into_iter().for_each(|b| oracle.free(b));
                                }
                            }
                            if own.len() > 500 {
                                own.drain(250..).for_each(|b| oracle.free(b));
                            }
                        }
                        (oracle, own)
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for (oracle, own) in results {
            sum.add(&oracle);
            kept.extend(own);
        }
        kept.extend(receiver.into_inner().unwrap().try_iter());
        let now = at_rest();
        let totals = now.process();
        assert_eq!(
            (
                totals.allocations - totals_before.allocations,
                totals.frees - totals_before.frees
            ),
            (sum.allocations, sum.frees)
        );
        // By class, only what has reached its owner counts. A pass of the scavenger may have
        // what was in an inbox for a moment.
        let mut tries = (0..1000).map(|_| {
            c::trim();
            thread::yield_now();
            at_rest()
        });
        let now = tries
            .find(|now| now.process().in_flight == 0)
            .expect("all of it reaches its owner");
        assert_classes(&classes_before, &now, &sum);
    }
    let mut last = Oracle::default();
    kept.into_iter().for_each(|block| last.free(block));
    sum.add(&last);
    let totals = at_rest().process();
    assert_eq!(
        totals.frees - totals_before.frees,
        sum.frees,
        "freed by this thread for heaps that are idle"
    );
    assert!(totals.remote_frees > totals_before.remote_frees);
    assert_eq!(sum.allocations, sum.frees);
    c::trim();
    assert_classes(&classes_before, &at_rest(), &sum);
}

/// A purge gives pages with free blocks up, and moves their blocks from one counter to another. A
/// snapshot from before says the same after it.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn a_purge_does_not_change_what_a_snapshot_says() {
    let _turn = turn();
    let kept: Vec<Block> = thread::scope(|scope| {
        let work = scope.spawn(|| {
            let blocks: Vec<_> = (0..20_000).map(|i| Block::new(16 + i % 600)).collect();
            let (kept, freed) = blocks
                .into_iter()
                .enumerate()
                .partition::<Vec<_>, _>(|(i, _)| i % 50 == 0);
            freed.into_iter().for_each(|(_, block)| block.free());
            kept.into_iter().map(|(_, block)| block).collect()
        });
        work.join().unwrap()
    });
    kept.into_iter().for_each(Block::free);
    let snapshot = Snapshot::take();
    let figures = || {
        let s = snapshot.process();
        let by_class: Vec<_> = snapshot
            .classes()
            .map(|c| {
                (
                    c.allocations,
                    c.frees,
                    c.remote_frees,
                    c.pages,
                    c.carved_bytes,
                    c.live_bytes,
                )
            })
            .collect();
        (s.allocations, s.frees, s.in_flight, s.live_bytes, by_class)
    };
    let before = figures();
    c::trim();
    assert!(figures() == before);
    // The purge had something to give up.
    let pages = |s: &Snapshot| s.classes().map(|c| c.pages).sum::<u64>();
    assert!(pages(&Snapshot::take()) < pages(&snapshot));
}

/// While one thread takes snapshots, others begin and end, one at a time. Each finds an idle heap:
/// a snapshot holds one at a time.
#[test]
fn snapshots_leave_heaps_to_new_threads() {
    let _turn = turn();
    let work = || thread::spawn(|| Block::new(100).free()).join().unwrap();
    work();
    let before = Snapshot::take().process().heaps;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                Snapshot::take();
            }
        });
        (0..2000).for_each(|_| work());
        done.store(true, Relaxed);
    });
    // One for the thread that takes snapshots, and one that a purge tidies.
    let more = Snapshot::take().process().heaps - before;
    assert!(more <= 2, "{more} more heaps");
}

/// Of threads that run the lists are not known: the totals err on one side, by no more than these
/// hold.
#[test]
fn totals_are_bounds_while_threads_run() {
    let _turn = turn();
    c::trim();
    let before = Snapshot::take().process();
    let (work_is_done, go_on) = (Barrier::new(4), Barrier::new(4));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (work_is_done, go_on) = (&work_is_done, &go_on);
                scope.spawn(move || {
                    let mut random = Random(77 + number);
                    let mut oracle = Oracle::default();
                    let mut own: Vec<Block> = (0..5000)
                        .map(|_| oracle.alloc(size_by(&mut random)))
                        .collect();
                    own.drain(2000..).for_each(|b| oracle.free(b));
                    work_is_done.wait();
                    go_on.wait();
                    let at_barrier = oracle.clone();
                    own.into_iter().for_each(|b| oracle.free(b));
                    at_barrier
                })
            })
            .collect();
        work_is_done.wait();
        let snapshot = Snapshot::take();
        let now = snapshot.process();
        go_on.wait(); // Before anything that may fail: the threads wait for it.
        let mut sum = Oracle::default();
        threads
            .into_iter()
            .for_each(|t| sum.add(&t.join().unwrap()));
        assert_eq!(snapshot.running_heaps(), 3);
        let (allocations, frees) = (
            now.allocations - before.allocations,
            now.frees - before.frees,
        );
        // A list holds a carve of 4 KiB, or of a page what was freed.
        let lists = (3 * CLASSES * 512) as u64;
        assert!(
            (sum.allocations..=sum.allocations + lists).contains(&allocations),
            "{allocations} of {}",
            sum.allocations
        );
        assert!(frees <= sum.frees, "{frees} of {}", sum.frees);
        assert!(frees > 0, "huge blocks and large blocks at least are seen");
    });
}

/// What a running thread has not told yet is told for it.
#[test]
fn live_bytes_are_those_of_running_threads_too() {
    const BYTES: usize = 100 << 10;
    let _turn = turn();
    c::trim();
    let before = Snapshot::take().process();
    let (allocated, end) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let blocks: Vec<_> = (0..BYTES / 128).map(|_| Block::new(128)).collect();
            allocated.wait();
            end.wait();
            blocks.into_iter().for_each(Block::free);
        });
        allocated.wait();
        let snapshot = Snapshot::take();
        let now = snapshot.process();
        let states: Vec<_> = snapshot.heaps().map(|heap| heap.state).collect();
        end.wait();
        other.join().unwrap();
        assert!(states.contains(&HeapUse::Running), "{states:?}");
        assert!(
            now.live_bytes >= before.live_bytes + BYTES as u64,
            "{} and {}",
            before.live_bytes,
            now.live_bytes
        );
        let (bound, bound_before) = (now.live_bytes_upper_bound, before.live_bytes_upper_bound);
        assert!(
            bound >= bound_before + BYTES as u64,
            "{bound_before} and {bound}"
        );
        assert!(now.peak_live_bytes_upper_bound >= bound && bound >= now.live_bytes);
    });
}

/// Of many blocks in as many pages few are left: they alone are live, and what was carved is the
/// bound.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn live_bytes_are_those_of_the_blocks_that_are_left() {
    let _turn = turn();
    c::trim();
    let before = Snapshot::take().process();
    let mut blocks: Vec<_> = (0..10_000).map(|_| Block::new(1024)).collect();
    let (large, huge) = (Block::new(200 << 10), Block::new(4 << 20));
    let is_kept = |i: &usize| i.is_multiple_of(10);
    let freed = (0..blocks.len()).rev().filter(|i| !is_kept(i));
    for i in freed.collect::<Vec<_>>() {
        blocks.swap_remove(i).free();
    }
    let snapshot = Snapshot::take();
    let now = snapshot.process();
    let more = now.live_bytes - before.live_bytes;
    let larger = (256 << 10) + (4 << 20);
    // The list of blocks itself, and what else the test has.
    let least = 1000 * 1024 + larger;
    assert!(
        (least..least + (300 << 10)).contains(&more),
        "{more} of {least}"
    );
    let bound = now.live_bytes_upper_bound - before.live_bytes_upper_bound;
    assert!(bound >= 9_000 * 1024 + larger, "{bound}");
    blocks
        .into_iter()
        .chain([large, huge])
        .for_each(Block::free);
}

/// Frees for other threads are counted by who makes them, wherever they are by now. The counts are
/// exact once nothing is in flight.
#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn remote_frees_are_exact_while_both_threads_run() {
    const BLOCKS: usize = 10_007;
    let _turn = turn();
    c::trim();
    let before = Snapshot::take().process();
    let (allocated, freed, end) = (Barrier::new(3), Barrier::new(3), Barrier::new(3));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let sender = sender;
            (0..BLOCKS).for_each(|i| sender.send(Block::new(16 + i % 600)).unwrap());
            allocated.wait();
            freed.wait();
            end.wait();
        });
        let other = scope.spawn(|| {
            let receiver = receiver;
            allocated.wait();
            receiver.try_iter().for_each(Block::free);
            freed.wait();
            end.wait();
        });
        allocated.wait();
        freed.wait();
        let snapshot = Snapshot::take();
        let now = snapshot.process();
        let sender = snapshot.heaps().max_by_key(|h| h.blocks_sent).unwrap();
        end.wait(); // Before anything that may fail: the threads wait for it.
        // Joined, not just at their end: what they do when they end is then over, too.
        other.join().unwrap();
        owner.join().unwrap();
        assert_eq!(now.remote_frees - before.remote_frees, BLOCKS as u64);
        assert!(
            now.in_flight > before.in_flight,
            "the owner has not looked at its inbox"
        );
        assert!(sender.chains_sent > 0 && sender.batches_sent >= sender.chains_sent);
        assert!(sender.blocks_sent >= sender.batches_sent);
    });
    c::trim();
    let now = Snapshot::take().process();
    assert_eq!(
        (now.in_flight, now.frees - before.frees),
        (0, BLOCKS as u64)
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn list_hits_and_refills_add_up_to_allocations() {
    let _turn = turn();
    let of = |s: &Snapshot| s.classes().find(|c| c.size == 64).unwrap();
    let before = of(&Snapshot::take());
    let blocks: Vec<_> = (0..1000).map(|_| Block::new(64)).collect();
    let now = of(&Snapshot::take());
    assert_eq!(now.allocations - before.allocations, 1000);
    assert_eq!(now.list_hits() + now.refills(), now.allocations);
    // Fresh blocks come in steps of 4, 4, 8 and 16 KiB for each page; some may have lain in the
    // list before.
    let refills = now.refills() - before.refills();
    assert!((4..=9).contains(&refills), "{refills} refills");
    assert!(now.live_bytes - before.live_bytes == 64_000 && now.page_bytes >= now.carved_bytes);
    assert!(
        now.carved_bytes >= now.live_bytes && now.unused_bytes() == now.page_bytes - now.live_bytes
    );
    blocks.into_iter().for_each(Block::free);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn large_blocks_huge_and_their_caches() {
    let _turn = turn();
    let take = || Snapshot::take().process();
    let pairs = |size| (0..50).for_each(|_| Block::new(size).free());
    pairs(200 << 10);
    pairs(3 << 20);
    let before = take();
    pairs(200 << 10);
    let (now, of) = (take(), |f: fn(&Stats) -> u64, now: &Stats| {
        f(now) - f(&before)
    });
    assert_eq!(
        [
            of(|s| s.large_allocations, &now),
            of(|s| s.large_frees, &now),
            of(|s| s.large_hits, &now)
        ],
        [50; 3]
    );
    pairs(3 << 20);
    let now = take();
    assert_eq!(
        [
            of(|s| s.huge_allocations, &now),
            of(|s| s.huge_frees, &now),
            of(|s| s.huge_hits, &now)
        ],
        [50; 3]
    );
    assert_eq!(
        [of(|s| s.allocations, &now), of(|s| s.frees, &now)],
        [100; 2]
    );
    let (large, huge) = (Block::new(1 << 20), Block::new(5 << 20));
    let heap_walk = *Snapshot::take().heap_walk();
    assert!(
        heap_walk.large_slots >= 16 && heap_walk.huge_segments >= 3,
        "{heap_walk:?}"
    );
    large.free();
    huge.free();
}

#[test]
fn slots_and_segments_by_their_use_are_all_there_is() {
    let _turn = turn();
    let mut random = Random(5);
    let blocks: Vec<_> = (0..20_000)
        .map(|_| Block::new(size_by(&mut random)))
        .collect();
    let snapshot = Snapshot::take();
    let heap_walk = *snapshot.heap_walk();
    let slots = heap_walk.page_slots
        + heap_walk.large_slots
        + heap_walk.kept_slots
        + heap_walk.dirty_slots
        + heap_walk.clean_slots;
    assert_eq!(slots, 32 * heap_walk.slotted_segments, "{heap_walk:?}");
    let refills: u64 = snapshot.classes().map(|c| c.refills()).sum();
    assert!(refills > 0 && snapshot.process().refills == refills);
    let page_bytes: u64 = snapshot.classes().map(|c| c.page_bytes).sum();
    assert_eq!(
        page_bytes,
        heap_walk.page_slots << 16,
        "pages by class and by slot"
    );
    let resident = hakmem_core::stats::resident_bytes();
    assert!(
        resident > 0 && resident <= snapshot.process().committed_bytes,
        "{resident}"
    );
    blocks.into_iter().for_each(Block::free);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn the_peak_is_told_by_class() {
    let _turn = turn();
    // More than ever before in this process; of a block only the first page of memory is touched.
    let wanted =
        Snapshot::take().process().peak_live_bytes_upper_bound as usize / 65536 * 4 / 3 + 1000;
    let blocks: Vec<_> = (0..wanted).map(|_| Block::new(65536)).collect();
    let snapshot = Snapshot::take();
    let class = snapshot.classes().find(|c| c.size == 65536).unwrap();
    assert!(
        class.peak_bytes as f64 > 0.9 * class.live_bytes as f64,
        "{class:?}"
    );
    blocks.into_iter().for_each(Block::free);
}

/// Small blocks make a peak and go. `raise` gets that peak, makes a higher one of huge blocks, and
/// runs what it is given while they are live: then the peak has no small blocks.
fn huge_blocks_make_the_peak(raise: impl FnOnce(usize, &dyn Fn())) {
    let _turn = turn();
    let peak = || Snapshot::take().process().peak_live_bytes_upper_bound as usize;
    let small: Vec<_> = (0..(peak() / 65536 + 100) * 4 / 3)
        .map(|_| Block::new(65536))
        .collect();
    let of_small = small.len() as u64 * 65536;
    small.into_iter().for_each(Block::free);
    raise(peak(), &|| {
        let snapshot = Snapshot::take();
        let class = snapshot.classes().find(|c| c.size == 65536).unwrap();
        assert!(class.peak_bytes < of_small / 2, "{class:?}");
    });
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn the_peak_of_huge_blocks_is_told_by_class() {
    huge_blocks_make_the_peak(|peak, check| {
        // Nobody touches them.
        let huge: Vec<_> = (0..2 * peak / (64 << 20) + 1)
            .map(|_| Block::new(64 << 20))
            .collect();
        check();
        huge.into_iter().for_each(Block::free);
    });
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn the_peak_of_a_block_that_grows_is_told_by_class() {
    huge_blocks_make_the_peak(|peak, check| {
        // SAFETY: the block is live until the test frees it. Nobody touches it.
        unsafe {
            let p = hakmem_core::c::malloc(4 << 20);
            let p = hakmem_core::c::realloc(p, 2 * peak);
            check();
            hakmem_core::c::free(p);
        }
    });
}
