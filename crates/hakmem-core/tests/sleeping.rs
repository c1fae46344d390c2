//! What threads keep that sleep, or work while a pass looks at their heaps.
//!
//! Each runs in a process of its own, as the knobs, the figures and the threads are the process's.
#![cfg(not(any(loom, shuttle)))]

use crate::idle::{MIB, come_and_go, take, threads, until};
use crate::oracle;

use hakmem_core::c;
use hakmem_core::stats::{self, PageState};
use oracle::alone;
use oracle::plain::{configure, free};
use std::sync::Barrier;

/// Takes 300 KB of blocks of each size, at least 61 of medium ones, and frees them. Neighbours are
/// freed far apart.
fn fill_and_free(oracle: &mut oracle::Oracle<oracle::C>, sizes: &[usize]) {
    for &size in sizes {
        let least = if size <= 64 << 10 { 61 } else { 1 };
        let count = (300_000 / size).max(least);
        let mut blocks: Vec<_> = (0..count)
            .map(|_| Some(oracle.alloc(oracle::layout(size))))
            .collect();
        for step in 0..7 {
            let some = blocks.iter_mut().skip(step).step_by(7);
            some.filter_map(Option::take)
                .for_each(|block| oracle.dealloc(block));
        }
    }
}

/// Pages of medium blocks that a heap has: all used blocks of the sleepers are on its lists.
fn medium_pages_not_parked() -> u64 {
    let mut pages = 0;
    stats::each_segment(&mut |segment| {
        for slot in segment.slots() {
            if let stats::Content::Page(page) = slot.content {
                pages += u64::from(page.size > 8 << 10 && page.state != PageState::Parked);
            }
        }
    });
    pages
}

/// Threads take blocks of all sizes, free them, and sleep. Then they do so once more.
fn sleepers() {
    const THREADS: usize = 8;
    const SIZES: [usize; 12] = [
        16, 48, 200, 500, 1000, 2000, 5000, 9000, 14_000, 30_000, 60_000, 200_000,
    ];
    let barrier = std::sync::Barrier::new(THREADS + 1);
    let ranges = oracle::Ranges::default();
    let mut most = 0;
    std::thread::scope(|scope| {
        for salt in 0..THREADS {
            let (barrier, ranges) = (&barrier, &ranges);
            scope.spawn(move || {
                let mut oracle = oracle::Oracle::new(oracle::C, ranges, salt as u64);
                for _ in 0..2 {
                    fill_and_free(&mut oracle, &SIZES);
                    barrier.wait();
                    barrier.wait();
                }
            });
        }
        for round in 0..2 {
            barrier.wait();
            // What the first pass parks is purged by the second.
            hakmem_core::purge_all();
            hakmem_core::purge_all();
            let left = stats::Snapshot::take().heap_walk().kept_slots;
            most = most.max(left);
            // Later a thread may have freed blocks of a page that another one took meanwhile.
            if round == 0 {
                most = most.max(medium_pages_not_parked());
            }
            barrier.wait();
        }
    });
    // Not before: the threads would wait for ever.
    assert_eq!(most, 0, "slots are kept, or pages are not parked");
}

#[test]
fn what_threads_that_sleep_keep_comes_back() {
    alone("what_threads_that_sleep_keep_comes_back", sleepers);
}

/// Pages of small blocks that heaps have.
fn small_pages_not_parked() -> u64 {
    let mut pages = 0;
    stats::each_segment(&mut |segment| {
        for slot in segment.slots() {
            if let stats::Content::Page(page) = slot.content {
                pages += u64::from(page.size <= 1024 && page.state != PageState::Parked);
            }
        }
    });
    pages
}

/// Threads sleep with live blocks, and a pass looks at their heaps. Then they free all on the fast
/// path alone, which no counter shows, and sleep on. `look` waits for a pass that looks again.
fn frees_after_a_look(look: impl Fn()) {
    const THREADS: usize = 32;
    configure(&[c"HAKMEM_SHARED_FROM_HEAPS=0"]);
    let barrier = Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // A page of each class. Some of its blocks stay on the heap's list.
                let sizes = [
                    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384,
                ];
                let mut blocks = Vec::new();
                for size in sizes.into_iter().chain([448, 512, 640, 768, 896, 1024]) {
                    blocks.extend((0..65_536 / size - 2).map(|_| take(size)));
                }
                barrier.wait();
                barrier.wait();
                blocks.into_iter().for_each(free);
                barrier.wait();
                barrier.wait();
            });
        }
        barrier.wait();
        hakmem_core::purge_all();
        barrier.wait();
        barrier.wait();
        look();
        barrier.wait();
    });
}

fn sleepers_looked_at_by_a_call() {
    let left = std::cell::Cell::new(u64::MAX);
    frees_after_a_look(|| {
        hakmem_core::purge_all();
        left.set(small_pages_not_parked());
    });
    assert_eq!(left.get(), 0);
}

/// The profile does not change what it is to show.
fn profiled_sleepers() {
    assert!(hakmem_core::profile::start(1 << 30));
    sleepers_looked_at_by_a_call();
}

fn sleepers_looked_at_in_time() {
    configure(&[c"HAKMEM_DECAY_MS=20"]);
    frees_after_a_look(|| {
        until("their pages are parked", || {
            // Work for the scavenger, which looks at heaps on the way.
            come_and_go(4 * MIB, 64 * MIB);
            small_pages_not_parked() == 0
        });
    });
}

/// A filter that allows all, and that hakmem did not see being made. It could forbid membarrier, so
/// nobody may pause heaps.
fn filter() {
    let mut allow = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut allow,
    };
    // SAFETY: the program and its one instruction outlive the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
            0
        );
    }
}

/// Threads that sleep keep pages that nobody may give up. The scavenger does not wait for them.
fn sleepers_behind_a_filter() {
    const THREADS: usize = 32;
    configure(&[c"HAKMEM_SHARED_FROM_HEAPS=0", c"HAKMEM_DECAY_MS=20"]);
    filter();
    let before = threads();
    let barrier = Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let blocks: Vec<_> = (0..1500).map(|_| take(1000)).collect();
                barrier.wait();
                barrier.wait();
                blocks.into_iter().for_each(free);
            });
        }
        barrier.wait();
        come_and_go(4 * MIB, 64 * MIB);
        let ends = std::panic::catch_unwind(|| {
            until("the scavenger ends", || threads() == before + THREADS);
        });
        // Not before: the threads would wait for ever.
        barrier.wait();
        assert!(ends.is_ok());
    });
}

#[test]
fn no_thread_waits_for_what_a_filter_forbids() {
    alone(
        "no_thread_waits_for_what_a_filter_forbids",
        sleepers_behind_a_filter,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn what_sleeping_threads_free_after_a_look_comes_back() {
    alone(
        "what_sleeping_threads_free_after_a_look_comes_back",
        sleepers_looked_at_by_a_call,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn what_sleeping_threads_free_comes_back_while_they_are_profiled() {
    alone(
        "what_sleeping_threads_free_comes_back_while_they_are_profiled",
        profiled_sleepers,
    );
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn what_sleeping_threads_free_after_a_look_comes_back_by_itself() {
    alone(
        "what_sleeping_threads_free_after_a_look_comes_back_by_itself",
        sleepers_looked_at_in_time,
    );
}

/// Threads take and free blocks and say that they are idle: nothing of a page stays with them. They
/// say so twice, as a page that one of them parked can be another's by then: the first time sends
/// its blocks to the owner, the second time the owner receives them.
fn idlers() {
    const THREADS: usize = 4;
    let barrier = std::sync::Barrier::new(THREADS + 1);
    let ranges = oracle::Ranges::default();
    let mut left = u64::MAX;
    std::thread::scope(|scope| {
        for salt in 0..THREADS {
            let (barrier, ranges) = (&barrier, &ranges);
            scope.spawn(move || {
                let mut oracle = oracle::Oracle::new(oracle::C, ranges, salt as u64);
                fill_and_free(&mut oracle, &[16, 200, 1000, 5000, 30_000, 200_000]);
                for _ in 0..2 {
                    barrier.wait();
                    hakmem_core::thread_idle();
                }
                barrier.wait();
                barrier.wait();
            });
        }
        for _ in 0..3 {
            barrier.wait();
        }
        left = stats::process().live_bytes_upper_bound;
        barrier.wait();
    });
    // Blocks on lists would count as live.
    assert_eq!(left, 0);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn a_thread_that_says_it_is_idle_keeps_nothing() {
    alone("a_thread_that_says_it_is_idle_keeps_nothing", idlers);
}

/// Threads work while another makes one pass after the other, each of which looks into all heaps.
fn looked_at() {
    const THREADS: usize = 3;
    const STEPS: usize = 60_000;
    let working = std::sync::atomic::AtomicUsize::new(THREADS);
    let ranges = oracle::Ranges::default();
    std::thread::scope(|scope| {
        let start = |salt: usize| {
            let (working, ranges) = (&working, &ranges);
            scope.spawn(move || {
                let mut oracle = oracle::Oracle::new(oracle::C, ranges, salt as u64);
                let mut random = oracle::Random(salt as u64 + 1);
                let mut blocks = Vec::new();
                for step in 0..oracle::share(STEPS) {
                    // Now and then everything is freed, so that lists are all that pages have.
                    let most = if step % 512 < 400 { 40 } else { 0 };
                    if blocks.len() < most {
                        let bits = 4 + random.below(14);
                        let size = 1 + random.below(1 << bits);
                        blocks.push(oracle.alloc(oracle::layout(size)));
                    } else if !blocks.is_empty() {
                        let block = blocks.swap_remove(random.below(blocks.len()));
                        oracle.dealloc(block);
                    }
                }
                blocks.into_iter().for_each(|block| oracle.dealloc(block));
                working.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        while working.load(std::sync::atomic::Ordering::Relaxed) != 0 {
            hakmem_core::purge_all();
        }
        // The scope does not wait for what a thread does when it ends; a join does.
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    c::trim();
    assert_eq!(stats::process().live_bytes, 0);
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn heaps_at_work_can_be_looked_at() {
    alone("heaps_at_work_can_be_looked_at", looked_at);
}

/// Samples and guards cut the lists of a heap, which a pass may look at between a refill and the
/// cut.
fn sampled_and_looked_at() {
    assert!(hakmem_core::profile::start(4096));
    configure(&[c"HAKMEM_GUARD_SAMPLE=50"]);
    looked_at();
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn sampled_heaps_at_work_can_be_looked_at() {
    alone(
        "sampled_heaps_at_work_can_be_looked_at",
        sampled_and_looked_at,
    );
}

/// Threads that keep much and sleep, all between two passes: a thread sees to them, although no
/// pass has seen their pages yet.
fn sleepers_between_two_passes() {
    const THREADS: usize = 16;
    // A pass is due each 15 s.
    configure(&[c"HAKMEM_DECAY_MS=60000"]);
    // The first one is made here, and the next one is far off.
    come_and_go(300 << 10, MIB);
    let before = threads();
    let (ready, over) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // The heap retires a page of half a MiB for each class, and gives the others back.
                for size in (10..64).step_by(4) {
                    come_and_go(size << 10, MIB);
                }
                ready.wait();
                over.wait();
            });
        }
        ready.wait();
        let now = threads();
        over.wait();
        assert_eq!(now, before + THREADS + 1, "a thread sees to it");
    });
}

#[test]
#[cfg_attr(
    feature = "hardened",
    ignore = "exact figures and places of blocks without tags, of which none waits after its free"
)]
fn what_threads_keep_that_sleep_between_two_passes_comes_back() {
    alone(
        "what_threads_keep_that_sleep_between_two_passes_comes_back",
        sleepers_between_two_passes,
    );
}
