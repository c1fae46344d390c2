//! Unit tests of the profile: signal handlers, the child of a fork, and another process.

extern crate std;
use super::*;
use crate::base::usage;
use crate::guard;
use crate::testing::alone;
use crate::testing::in_child;
use std::vec::Vec;

const SIZES: [usize; 4] = [16, 5000, 100_000, 3 << 20];

fn take(size: usize) -> *mut u8 {
    // SAFETY: `malloc` takes any size, and a block that is not null has `size` bytes.
    unsafe {
        let p = crate::api::c::malloc(size);
        assert!(!p.is_null());
        p.write_bytes(1, size);
        p
    }
}

fn free(p: *mut u8) {
    // SAFETY: the tests free each block once.
    unsafe { crate::api::c::free(p) }
}

fn taken() -> u64 {
    table::with_books(|books| books.buckets().map(|(bucket, _)| bucket.taken).sum()).unwrap()
}

/// Rule 2: a signal handler that interrupts the profile. The test runs in a process of its own, as
/// a profile never ends.
#[test]
fn whoever_interrupts_the_profile_is_served() {
    alone("profile::tests::whoever_interrupts_the_profile_is_served", while_the_lock_is_held);
}

fn while_the_lock_is_held() {
    assert!(start(1));
    let ours: Vec<_> = SIZES.map(take).into();
    let before = taken();
    assert!(before >= 4, "with this interval all are samples");
    table::with_books(|_| {
        assert!(table::with_books(|_| ()).is_none());
        ours.into_iter().for_each(free);
        let inside: Vec<_> = (0..100).flat_map(|_| SIZES).map(take).collect();
        inside.into_iter().for_each(free);
    });
    assert_eq!(taken(), before, "none of those inside was one");
    for _ in 0..100 {
        SIZES.map(take).into_iter().for_each(free);
    }
    assert!(taken() >= before + 390);
}

/// Runs `f` in a child of which every allocation is a sample.
fn sampled(f: impl FnOnce()) {
    in_child(|| {
        stop();
        INTERVAL.store(0, Relaxed);
        assert!(start(1));
        f();
    });
}

/// All samples, the freed ones, and the lost ones.
fn counts() -> (u64, u64, u64) {
    let of = |books: &mut table::Books| {
        let sum =
            |of: fn(&table::Bucket) -> u64| books.buckets().map(|(bucket, _)| of(bucket)).sum();
        (sum(|bucket| bucket.taken), sum(|bucket| bucket.freed), books.lost)
    };
    table::with_books(of).unwrap()
}

/// True if the books have a live sample at `p`.
fn is_live(p: *mut u8) -> bool {
    let find = |books: &mut table::Books| {
        let found = books.remove(p.addr());
        if let Some(bucket) = found {
            books.put(p.addr(), bucket);
        }
        found.is_some()
    };
    table::with_books(find).unwrap()
}

/// Of what a signal handler freed, small blocks go back with the next sample, and all with a pass
/// of the purge.
#[test]
fn samples_freed_without_the_books_are_freed_later() {
    sampled(|| {
        free(take(64)); // Makes what the books need.
        let ours = SIZES.map(take);
        let live = usage::live().0;
        table::with_books(|_| ours.iter().for_each(|&p| free(p)));
        assert!(ours.iter().all(|&p| is_live(p)), "they wait");
        free(take(64));
        assert_eq!(ours.map(is_live), [false, false, true, true]);
        stop();
        crate::purge::all();
        assert_eq!(ours.map(is_live), [false; 4]);
        assert!(
            usage::live().0 + SIZES.iter().sum::<usize>() as u64 <= live,
            "and their memory is free"
        );
    });
}

/// Runs `f` while another thread is about to fork, and has the books.
fn during_a_fork(f: impl FnOnce()) {
    let turn = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            table::before_fork();
            turn.wait();
            turn.wait();
            table::release_after_fork();
        });
        turn.wait();
        f();
        turn.wait();
    });
}

/// A fork that takes long: other threads do not wait for its end, and lose nothing.
#[test]
fn samples_freed_during_a_long_fork_are_freed_later() {
    sampled(|| {
        let ours = SIZES.map(take);
        during_a_fork(|| ours.iter().for_each(|&p| free(p)));
        crate::purge::all();
        assert!(!ours.iter().any(|&p| is_live(p)));
    });
}

/// Frees of program heaps are counted later, too: of one block, and of all blocks of a heap that
/// ends.
#[test]
fn frees_of_program_heaps_are_counted_later() {
    sampled(|| {
        use crate::api::c::heaps;
        // SAFETY: the heap is live until it is deleted, after its last use.
        unsafe {
            let heap = heaps::new("counted", None);
            let blocks = [(); 11].map(|()| heaps::allocate(heap, 16, 5000, false));
            let (taken, freed, _) = counts();
            assert!(taken - freed >= 11);
            table::with_books(|_| {
                free(blocks[0]);
                assert!(heaps::delete(heap));
            });
            assert_eq!(counts().1, freed, "they wait");
            free(take(64));
            assert_eq!(counts().1, freed + 12);
        }
    });
}

/// The first thread that waits for a long fork in vain is the last one that waits for it.
#[test]
fn a_long_fork_is_waited_for_once() {
    sampled(|| {
        let is_long = || table::IS_LONG.load(Relaxed);
        for _ in 0..2 {
            during_a_fork(|| {
                assert!(!is_long(), "each fork is waited for");
                assert!(table::with_books(|_| ()).is_none() && is_long());
                // Nobody waits now: the lock is tried once.
                assert!((0..100).all(|_| table::with_books(|_| ()).is_none()));
            });
            assert!(table::with_books(|_| ()).is_some());
        }
    });
}

/// Where forks overlap, there is a fork all the time. Each of them is waited for all the same.
#[test]
fn each_of_several_forks_that_overlap_is_waited_for() {
    sampled(|| {
        let is_long = || table::IS_LONG.load(Relaxed);
        let turn = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            during_a_fork(|| {
                assert!(table::with_books(|_| ()).is_none() && is_long());
                scope.spawn(|| {
                    let mut forks = 0;
                    while !table::LOCK.is_held_by(crate::os::thread_token()) {
                        table::before_fork();
                        forks += 1;
                    }
                    turn.wait();
                    turn.wait();
                    (0..forks).for_each(|_| table::release_after_fork());
                });
                while table::FORKS.load(Relaxed) < 2 {
                    std::thread::yield_now();
                }
            });
            turn.wait();
            let was_long = is_long();
            turn.wait();
            assert!(!was_long);
        });
    });
}

/// In the child, live samples count as taken from the start.
#[test]
fn a_child_has_counts_of_its_own() {
    sampled(|| {
        SIZES.map(take).into_iter().for_each(free);
        let live = SIZES.map(take);
        let (taken, freed, _) = counts();
        assert!(taken - freed >= 4 && freed >= 4);
        in_child(|| {
            assert_eq!(counts(), (taken - freed, 0, 0));
            live.into_iter().for_each(free);
            let _live = SIZES.map(take);
            assert_eq!(counts(), (taken - freed + 4, 4, 0));
        });
    });
}

/// As another process does (`outside`).
fn switch(byte: u8) {
    // SAFETY: the byte lies in `RUN`, which is an atomic. The child has one thread, so nothing
    // else reads or writes `RUN` meanwhile.
    unsafe { RUN.as_ptr().cast::<u8>().wrapping_add(outside::SWITCH).write_volatile(byte) }
}

/// Neither side undoes what the other did, and a child is not profiled.
#[test]
fn another_process_has_a_byte_of_its_own() {
    in_child(|| {
        stop();
        INTERVAL.store(0, Relaxed);
        outside::ASKED.interval.store(1, Relaxed);
        switch(0x81);
        assert!(is_on() && interval() == 1);
        SIZES.map(take).into_iter().for_each(free);
        let first = taken();
        assert!(first >= 4);
        in_child(|| assert!(!is_on()));
        assert!(start(4096) && interval() == 4096);
        stop();
        assert!(is_on(), "the other process did not switch it off");
        SIZES.map(take).into_iter().for_each(free);
        assert!(taken() >= first + 4, "at its interval");
        switch(0);
        assert!(!is_on());
        assert!(start(1));
        switch(0x82);
        switch(0);
        assert!(is_on(), "the program did not");
        in_child(|| assert!(is_on()));
    });
}

/// What the other process may write in part.
#[test]
fn any_interval_of_another_process_will_do() {
    in_child(|| {
        stop();
        for (i, interval) in [0, 1 << 63, u64::MAX].into_iter().enumerate() {
            outside::ASKED.interval.store(interval, Relaxed);
            switch(0x81 + i as u8);
            SIZES.map(take).into_iter().for_each(free);
        }
    });
}

/// What is shown is where the books are, and whole.
#[test]
fn the_books_are_shown_where_they_are() {
    sampled(|| {
        SIZES.map(take).into_iter().for_each(free);
        let shown = || outside::SHOWN.last().next().unwrap().1;
        let before = shown();
        let books = |of: fn(&mut table::Books) -> [u64; 2]| table::with_books(of).unwrap();
        let lengths = books(|books| [books.buckets().count() as u64, books.frames() as u64]);
        assert_eq!([before[1], before[3]], lengths);
        table::with_books(|books| {
            for i in 0..10_000 {
                books.bucket(16, 1, &[i, i + 1]).unwrap();
            }
        });
        let after = shown();
        assert_eq!([after[1], after[3]], [lengths[0] + 10_000, lengths[1] + 20_000]);
        assert!(after[0] != before[0], "they moved");
    });
}

#[test]
fn samples_share_pages() {
    sampled(|| {
        for (size, most) in [(64, 2), (5000, 9)] {
            let blocks: Vec<_> = (0..100).map(|_| take(size)).collect();
            let mut pages: Vec<_> = blocks.iter().map(|p| p.addr() >> 16).collect();
            pages.sort();
            pages.dedup();
            assert!(pages.len() <= most, "{size}: {}", pages.len());
            blocks.into_iter().for_each(free);
        }
    });
}

/// The program gets its blocks all the same, and each lost sample is counted.
#[test]
fn samples_that_there_is_no_memory_for_are_lost() {
    const EACH: u64 = 2000;
    sampled(|| {
        SIZES.map(take).into_iter().for_each(free);
        let before = counts();
        let none = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
        let mut usual = none;
        // SAFETY: only reads and sets a limit. The arenas are reserved already, so only the
        // profile maps more.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut usual), 0);
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &none), 0);
        }
        let mut blocks = [core::ptr::null_mut(); EACH as usize];
        let mut all = before;
        // The blocks have pages of their own, which the test does not write to: they are many.
        for size in [5000, 70_000] {
            for block in &mut blocks {
                // SAFETY: `malloc` takes any size.
                *block = unsafe { crate::api::c::malloc(size) };
            }
            let now = counts();
            assert_eq!((now.0 - all.0) + (now.2 - all.2), EACH, "{size}");
            assert!(now.2 - all.2 > EACH / 4, "{size}: {} lost", now.2 - all.2);
            assert!(blocks.iter().all(|block| !block.is_null()));
            blocks.into_iter().for_each(free);
            all = now;
        }
        // SAFETY: sets the limit to its former value.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &usual) }, 0);
    });
}

/// A block that comes back at once is as likely to be a sample as any other: the profile, and the
/// guards. So it is if the list ends before it took all the frees that it had room for.
#[test]
#[cfg_attr(feature = "hardened", ignore = "it has no guards, and frees go to the page")]
fn blocks_that_come_back_at_once_are_sampled() {
    const SIZE: u64 = 64;
    let is_near = |count: u64, expected: u64| {
        assert!((expected * 9 / 10..expected * 11 / 10).contains(&count), "{count} for {expected}")
    };
    // Of three blocks two are freed at once, or all of one. The result: how many had guards.
    let guarded = |blocks: u64, keeps: u64| {
        let round = |_| {
            let taken: Vec<_> = (0..blocks).map(|_| take(SIZE as usize)).collect();
            let guarded = taken.iter().filter(|&&p| guard::has(p)).count() as u64;
            taken[keeps as usize..].iter().copied().for_each(free);
            guarded
        };
        (0..300_000 / blocks).map(round).sum::<u64>()
    };
    in_child(|| {
        assert_eq!(guarded(1, 0), 0, "both are off");
        stop();
        INTERVAL.store(0, Relaxed);
        assert!(start(16 << 10));
        for (blocks, keeps) in [(1, 0), (3, 1)] {
            let of_class = || {
                let of =
                    |bucket: &table::Bucket| if bucket.size == SIZE { bucket.taken } else { 0 };
                table::with_books(|books| books.buckets().map(|(b, _)| of(b)).sum::<u64>()).unwrap()
            };
            let before = of_class();
            assert_eq!(guarded(blocks, keeps), 0);
            is_near(of_class() - before, 300_000 * SIZE / (16 << 10));
        }
        crate::policy::GUARD_SAMPLE.set(50);
        guard::start();
        let before = taken();
        is_near(guarded(1, 0), 300_000 / 50);
        assert!(taken() > before, "the profile goes on");
        crate::policy::GUARD_SAMPLE.set(0);
    });
}
