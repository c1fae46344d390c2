//! The figures against counts that were kept beside them, outside the heap under test.

use hakmem_core::c;
use hakmem_core::stats::{CLASSES, Snapshot, Stats};
use std::sync::{Barrier, Mutex, MutexGuard, mpsc};
use std::thread;

/// One test at a time: the figures are the process's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    // The thread of the test before may still be ending.
    while Snapshot::take().running_heaps() != 0 {
        thread::yield_now();
    }
    alone
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn size(&mut self) -> usize {
        match self.below(1000) {
            0 => 1 + self.below(5 << 20),
            1..10 => 1 + self.below(1 << 20),
            10..100 => 1 + self.below(64 << 10),
            _ => 1 + self.below(512),
        }
    }
}

/// A block, as a number that threads may pass on.
#[derive(Clone, Copy)]
struct Block(usize);

impl Block {
    fn new(size: usize) -> Self {
        // SAFETY: the block is only freed.
        let p = unsafe { c::malloc(size) };
        assert!(!p.is_null());
        Self(p.expose_provenance())
    }

    fn at(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.0)
    }

    fn usable(self) -> usize {
        // SAFETY: live.
        unsafe { c::usable_size(self.at()) }
    }

    fn free(self) {
        // SAFETY: live, and gone from here on.
        unsafe { c::free(self.at()) }
    }
}

/// What the test counts itself.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Oracle {
    allocations: u64,
    frees: u64,
    /// By usable size, for classes: allocations and frees.
    classes: std::collections::BTreeMap<u64, (u64, u64)>,
}

const CLASS_MAX: usize = 64 << 10;

impl Oracle {
    fn alloc(&mut self, size: usize) -> Block {
        let block = Block::new(size);
        self.allocations += 1;
        if block.usable() <= CLASS_MAX {
            self.classes.entry(block.usable() as u64).or_default().0 += 1;
        }
        block
    }

    fn free(&mut self, block: Block) {
        self.frees += 1;
        if block.usable() <= CLASS_MAX {
            self.classes.entry(block.usable() as u64).or_default().1 += 1;
        }
        block.free();
    }

    fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.frees += other.frees;
        for (&size, of) in &other.classes {
            let sum = self.classes.entry(size).or_default();
            (sum.0, sum.1) = (sum.0 + of.0, sum.1 + of.1);
        }
    }
}

fn by_class(snapshot: &Snapshot) -> Vec<(u64, u64, u64, u64)> {
    snapshot
        .classes()
        .map(|c| (c.size, c.allocations, c.frees, c.live_bytes))
        .collect()
}

/// Asserts that the classes moved from `before` to now by what the oracle says.
fn assert_classes(before: &[(u64, u64, u64, u64)], now: &Snapshot, oracle: &Oracle) {
    for (before, now) in before.iter().zip(by_class(now)) {
        let &(allocated, freed) = oracle.classes.get(&now.0).unwrap_or(&(0, 0));
        assert_eq!(
            (now.1 - before.1, now.2 - before.2),
            (allocated, freed),
            "blocks of {} bytes",
            now.0
        );
        let live = before.3 as i64 + (allocated as i64 - freed as i64) * now.0 as i64;
        assert_eq!(
            now.3 as i64, live,
            "live bytes in blocks of {} bytes",
            now.0
        );
    }
}

/// Threads allocate, free their own and each other's blocks, and end.
#[test]
fn totals_are_exact_once_threads_have_ended() {
    let _alone = alone();
    c::trim();
    let before = Snapshot::take();
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
                            own.push(oracle.alloc(random.size()));
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
        let now = Snapshot::take();
        let totals = now.process();
        assert_eq!(now.running_heaps(), 0);
        assert_eq!(
            (
                totals.allocations - totals_before.allocations,
                totals.frees - totals_before.frees
            ),
            (sum.allocations, sum.frees)
        );
        // By class, only what has reached its owner counts.
        c::trim();
        let now = Snapshot::take();
        assert_eq!(now.process().in_flight, 0);
        assert_classes(&classes_before, &now, &sum);
    }
    let mut last = Oracle::default();
    kept.into_iter().for_each(|block| last.free(block));
    sum.add(&last);
    let totals = Snapshot::take().process();
    assert_eq!(
        totals.frees - totals_before.frees,
        sum.frees,
        "freed by this thread for heaps that are idle"
    );
    assert!(totals.remote_frees > totals_before.remote_frees);
    assert_eq!(sum.allocations, sum.frees);
    c::trim();
    assert_classes(&classes_before, &Snapshot::take(), &sum);
}

/// Of threads that run the lists are not known: the totals err on one side, by no more than these hold.
#[test]
fn totals_are_bounds_while_threads_run() {
    let _alone = alone();
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
                    let mut own: Vec<Block> =
                        (0..5000).map(|_| oracle.alloc(random.size())).collect();
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
        assert!(frees > 0, "whales and large blocks at least are seen");
    });
}

/// Frees for other threads are counted by who makes them, wherever they are by now.
#[test]
fn remote_frees_are_exact_while_both_threads_run() {
    const BLOCKS: usize = 10_007;
    let _alone = alone();
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
        assert!(sender.batches_sent > 0 && sender.parcels_sent >= sender.batches_sent);
        assert!(sender.blocks_sent >= sender.parcels_sent);
    });
    c::trim();
    let now = Snapshot::take().process();
    assert_eq!(
        (now.in_flight, now.frees - before.frees),
        (0, BLOCKS as u64)
    );
}

#[test]
fn list_hits_and_refills_add_up_to_allocations() {
    let _alone = alone();
    let of = |s: &Snapshot| s.classes().find(|c| c.size == 64).unwrap();
    let before = of(&Snapshot::take());
    let blocks: Vec<_> = (0..1000).map(|_| Block::new(64)).collect();
    let now = of(&Snapshot::take());
    assert_eq!(now.allocations - before.allocations, 1000);
    assert_eq!(now.list_hits() + now.refills(), now.allocations);
    // Fresh blocks come 4096 bytes at a time; some may have lain in the list before.
    let refills = now.refills() - before.refills();
    assert!((15..=17).contains(&refills), "{refills} refills");
    assert!(now.live_bytes - before.live_bytes == 64_000 && now.page_bytes >= now.carved_bytes);
    assert!(
        now.carved_bytes >= now.live_bytes && now.unused_bytes() == now.page_bytes - now.live_bytes
    );
    blocks.into_iter().for_each(Block::free);
}

#[test]
fn large_blocks_whales_and_their_caches() {
    let _alone = alone();
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
            of(|s| s.whale_allocations, &now),
            of(|s| s.whale_frees, &now),
            of(|s| s.whale_hits, &now)
        ],
        [50; 3]
    );
    assert_eq!(
        [of(|s| s.allocations, &now), of(|s| s.frees, &now)],
        [100; 2]
    );
    let (large, whale) = (Block::new(1 << 20), Block::new(5 << 20));
    let census = *Snapshot::take().census();
    assert!(
        census.large_slots >= 16 && census.whale_segments >= 3,
        "{census:?}"
    );
    large.free();
    whale.free();
}

#[test]
fn slots_and_segments_by_their_use_are_all_there_is() {
    let _alone = alone();
    let mut random = Random(5);
    let blocks: Vec<_> = (0..20_000).map(|_| Block::new(random.size())).collect();
    let snapshot = Snapshot::take();
    let census = *snapshot.census();
    let slots = census.page_slots
        + census.large_slots
        + census.heap_slots
        + census.kept_slots
        + census.empty_slots
        + census.unused_slots;
    assert_eq!(slots, 32 * census.slotted_segments, "{census:?}");
    let page_bytes: u64 = snapshot.classes().map(|c| c.page_bytes).sum();
    assert_eq!(
        page_bytes,
        census.page_slots << 16,
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
fn the_peak_is_told_by_class() {
    let _alone = alone();
    // More than ever before in this process; of a block only the first page of memory is touched.
    let wanted = Snapshot::take().process().peak_live_bytes as usize / 65536 * 4 / 3 + 1000;
    let blocks: Vec<_> = (0..wanted).map(|_| Block::new(65536)).collect();
    let snapshot = Snapshot::take();
    let class = snapshot.classes().find(|c| c.size == 65536).unwrap();
    assert!(
        class.peak_bytes as f64 > 0.9 * class.live_bytes as f64,
        "{class:?}"
    );
    blocks.into_iter().for_each(Block::free);
}

/// The child of a fork counts anew, and what is live stays what it is.
#[test]
fn after_a_fork() {
    let _alone = alone();
    let before: Vec<_> = (0..1000).map(|_| Block::new(96)).collect();
    before[..10].iter().for_each(|b| b.free());
    let live = |s: &Snapshot| s.classes().map(|c| c.live_bytes).collect::<Vec<_>>();
    let pages = |s: &Snapshot| {
        s.classes()
            .map(|c| (c.pages, c.asleep_pages))
            .collect::<Vec<_>>()
    };
    let parent = Snapshot::take();
    let (live_before, pages_before) = (live(&parent), pages(&parent));
    // SAFETY: the child only computes and ends by _exit; the other threads are the test runner's, at rest.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let now = Snapshot::take();
        let same = live(&now) == live_before && pages(&now) == pages_before;
        let none = now.process().allocations == 0;
        let _of_the_child: Vec<_> = (0..100).map(|_| Block::new(96)).collect();
        let counted = Snapshot::take().process().allocations == 100;
        // SAFETY: no preconditions.
        unsafe { libc::_exit(i32::from(same) + 2 * i32::from(none) + 4 * i32::from(counted)) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(
        libc::WEXITSTATUS(status),
        7,
        "live and pages the same 1, no allocations 2, a hundred counted 4"
    );
    before[10..].iter().for_each(|b| b.free());
}

/// Counters can be read at any moment of an allocation.
#[test]
fn in_a_signal_handler() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static SEEN: AtomicU64 = AtomicU64::new(0);
    extern "C" fn look(_: libc::c_int) {
        let snapshot = Snapshot::take_from_outside();
        let known = snapshot.process().allocations + snapshot.census().page_slots;
        SEEN.fetch_add(u64::from(known > 0), Relaxed);
    }
    let _alone = alone();
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: 200,
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    let off = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        ..timer
    };
    // SAFETY: the handler reads atomics alone.
    unsafe {
        libc::signal(
            libc::SIGALRM,
            look as extern "C" fn(libc::c_int) as libc::sighandler_t,
        );
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
    }
    let mut random = Random(9);
    let mut blocks = Vec::new();
    while SEEN.load(Relaxed) < 200 {
        blocks.push(Block::new(random.size()));
        if blocks.len() > 1000 {
            blocks.drain(..).for_each(Block::free);
        }
    }
    blocks.into_iter().for_each(Block::free);
    // SAFETY: as above.
    unsafe {
        libc::setitimer(libc::ITIMER_REAL, &off, std::ptr::null_mut());
        libc::signal(libc::SIGALRM, libc::SIG_IGN);
    }
}
