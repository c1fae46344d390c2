//! A thread's heap, at its end and after it, and the key of the process.

extern crate std;

use super::*;
use crate::api::c;
use crate::base::sync::AtomicU64;
use crate::heap::all::{all_heaps, heaps_made, make};
use crate::observe::stats::Snapshot;
use crate::proto::heap_state::With;
use crate::testing::alone;
use crate::testing::{goes_well_in_child, in_child, keep_nothing_back};
use std::sync::Barrier;
use std::thread::{self, spawn};
use std::vec::Vec;

/// Allocates and frees a block.
fn come_and_go(size: usize) {
    // SAFETY: `malloc` returned the block, with `size` bytes. It is freed once.
    unsafe {
        let p = c::malloc(size);
        assert!(!p.is_null());
        p.write_bytes(1, size);
        c::free(p);
    }
}

fn heaps_of(who: u32) -> usize {
    all_heaps().filter(|h| h.state().with() == With::Thread(who)).count()
}

/// The process is ready before the first allocation, and so before a second thread may allocate
/// while the first one forks.
#[test]
fn the_process_is_ready_from_the_start() {
    assert_eq!(PROCESS.load(Acquire), READY);
}

#[test]
fn heaps_tell_who_has_them() {
    alone("thread::tests::heaps_tell_who_has_them", || {
        come_and_go(100);
        let states = || {
            let mut states: Vec<_> =
                Snapshot::take().heaps().map(|heap| heap.state.name()).collect();
            // Running heaps belong to other threads of the parent.
            states.retain(|&state| state != "running");
            states.sort();
            states
        };
        let (made, before) = (heaps_made(), states().len());
        let during = spawn(move || {
            come_and_go(100);
            assert_eq!(heaps_of(os::thread_token()), 1);
            let running = Snapshot::take().running_heaps();
            (running, heaps_made(), states().into_iter().filter(|&state| state == "own").count())
        });
        let (running, now, own) = during.join().unwrap();
        assert_eq!((running, own), (1, 1), "that of the first thread, and the second one's own");
        let after = states();
        assert_eq!(after.iter().filter(|&&state| state == "own").count(), 1);
        assert_eq!(after.iter().filter(|&&state| state == "idle").count(), after.len() - 1);
        assert_eq!(after.len() as u64, before as u64 + now - made);
        assert!(after.len() > 1);
    });
}

/// The mappings of the process: first and last address, and whether they can be written.
fn maps() -> Vec<(usize, usize, bool)> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let address = |digits| usize::from_str_radix(digits, 16).unwrap();
    text.lines()
        .map(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            (address(from), address(to), rest.as_bytes()[1] == b'w')
        })
        .collect()
}

/// A program that writes past a block, or before one, reaches no heap.
#[test]
fn heaps_lie_between_guards() {
    alone("thread::tests::heaps_lie_between_guards", || {
        const THREADS: usize = 600;
        let (there, over) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
        let serve = || {
            come_and_go(100);
            there.wait();
            over.wait();
        };
        let maps = thread::scope(|scope| {
            for _ in 0..THREADS {
                thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, serve).unwrap();
            }
            there.wait();
            let maps = maps();
            over.wait();
            maps
        });
        assert!(heaps_made() >= THREADS as u64);
        let mut regions = std::collections::BTreeSet::new();
        for heap in all_heaps() {
            let at = core::ptr::from_ref(heap).addr();
            assert!(
                crate::backend::page::lookup(os::at(at)).is_none(),
                "beside the program's blocks"
            );
            let i = maps
                .iter()
                .position(|&(from, to, writable)| writable && from <= at && at < to)
                .unwrap();
            regions.insert(i);
        }
        for &i in &regions {
            for (beside, end) in [(maps[i - 1], maps[i].0), (maps[i + 1], maps[i].1)] {
                let (from, to, writable) = beside;
                assert!(
                    !writable && (from == end || to == end) && to - from >= 64 << 10,
                    "{beside:x?} {:x?}",
                    maps[i]
                );
            }
        }
        assert!(regions.len() <= 5, "as few maps as that");
    });
}

/// If the system has no more address space, `make` returns None, and a later call succeeds.
#[test]
fn a_heap_that_cannot_be_made_is_made_later() {
    in_child(|| {
        come_and_go(100);
        // Only heaps in the present region are possible.
        let limit = |bytes| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: `limit` is a valid limit, and lives during the call.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        };
        limit(1 << 20);
        let (made, me) = (heaps_made(), os::thread_token());
        let more = (0..10_000).take_while(|_| make(me).is_some()).count();
        assert!(more < 1000 && make(me).is_none() && heaps_made() == made + more as u64);
        limit(libc::RLIM_INFINITY);
        assert!((0..1000).all(|_| make(me).is_some()));
    });
}

/// The last destructors of a thread can allocate and free.
#[test]
fn a_thread_whose_heap_is_gone_is_served() {
    static SERVED: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn late(_: *mut c_void) {
        let me = os::thread_token();
        let gone = matches!(tls::state(), ThreadState::Dead) && heaps_of(me) == 0;
        for size in [8, 100, 5000, 100_000, 3 << 20] {
            come_and_go(size);
        }
        SERVED.fetch_add(u64::from(gone && heaps_of(me) == 0), Relaxed);
    }
    // libc calls destructors in the order of their keys: this one runs after that of the heap.
    let key = os::make_exit_key(late).unwrap();
    let thread = spawn(move || {
        come_and_go(100);
        os::set_exit_value(key, (&raw const SERVED).cast());
        os::thread_token()
    });
    thread.join().unwrap();
    os::drop_exit_key(key);
    assert_eq!(SERVED.load(Relaxed), 1);
}

/// The thread that initialises the process may be preempted, or wait for a lock of libc. A thread
/// that meanwhile goes on without the key ends later: then its heap is taken over.
#[test]
fn nobody_waits_for_who_makes_the_process_ready() {
    alone("thread::tests::nobody_waits_for_who_makes_the_process_ready", || {
        come_and_go(100);
        let key = KEY.swap(NO_KEY, Relaxed);
        PROCESS.store(INITIALISING, Release);
        initialise();
        let token = gone(|| {
            come_and_go(100);
            assert!(pool::NUMBERED.load(Relaxed) && heaps_of(os::thread_token()) == 1);
        });
        assert_eq!(
            (PROCESS.load(Relaxed), heaps_of(token)),
            (INITIALISING, 1),
            "nobody was told of its end"
        );
        KEY.store(key, Relaxed);
        PROCESS.store(READY, Release);
        let made = heaps_made();
        // As many threads at once as there are idle heaps, and one more.
        let idle = all_heaps().filter(|h| h.state().with() == With::Nobody).count();
        let all = std::sync::Barrier::new(idle + 1);
        thread::scope(|scope| {
            for _ in 0..=idle {
                scope.spawn(|| {
                    come_and_go(100);
                    all.wait();
                });
            }
        });
        assert_eq!(heaps_made(), made, "the heap of the thread that is gone was there");
    });
}

/// As in a signal handler that interrupted a pass: it would wait for itself.
#[test]
fn a_trim_under_a_lock_does_nothing() {
    alone("thread::tests::a_trim_under_a_lock_does_nothing", || {
        keep_nothing_back();
        come_and_go(3 << 20);
        {
            let _held = purge::LOCK.lock();
            assert!(!crate::api::c::trim());
        }
        assert!(crate::api::c::trim(), "there was memory to give back");
    });
}

/// Two threads that did it at once could take a heap from the thread that got it meanwhile.
#[test]
fn one_thread_at_a_time_takes_heaps_over() {
    alone("thread::tests::one_thread_at_a_time_takes_heaps_over", || {
        come_and_go(100);
        KEY.store(NO_KEY, Relaxed);
        gone(|| come_and_go(100));
        let numbered = || all_heaps().filter(|h| h.thread().load(Relaxed) != 0).count();
        {
            let _held = pool::REAPING.lock();
            purge::all();
            assert_eq!(numbered(), 1, "the heap of the ended thread was taken");
        }
        // In a process made without fork's handlers the numbers are the parent's.
        let heap = all_heaps().find(|h| h.thread().load(Relaxed) != 0).unwrap();
        heap.thread().fetch_add(1 << 32, Relaxed);
        purge::all();
        assert_eq!(numbered(), 1, "a heap with the numbers of another process was taken");
        heap.thread().fetch_sub(1 << 32, Relaxed);
        purge::all();
        assert_eq!(numbered(), 0);
    });
}

/// Else each thread that comes meanwhile would make a heap, and those of ended threads would stay.
#[test]
fn a_thread_waits_for_the_one_that_takes_heaps_over() {
    let is_taken_over = || {
        come_and_go(100);
        KEY.store(NO_KEY, Relaxed);
        gone(|| come_and_go(100));
        let before = all_heaps().count();
        let held = pool::REAPING.lock();
        let begins = std::sync::Arc::new(std::sync::Barrier::new(2));
        let next = {
            let begins = begins.clone();
            spawn(move || {
                begins.wait();
                come_and_go(100);
            })
        };
        begins.wait();
        (0..2000).take_while(|_| !next.is_finished()).for_each(|_| thread::yield_now());
        drop(held);
        next.join().unwrap();
        assert_eq!(all_heaps().count(), before);
    };
    // It waits some milliseconds only, and another program may have the processor meanwhile.
    assert!((0..20).any(|_| goes_well_in_child(is_taken_over)));
}

/// A library that may be unloaded has no key at all.
#[test]
fn heaps_of_threads_that_could_not_tell_are_tidied() {
    alone("thread::tests::heaps_of_threads_that_could_not_tell_are_tidied", || {
        come_and_go(100);
        KEY.store(NO_KEY, Relaxed);
        let (live, ended) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let seen = thread::scope(|scope| {
            scope.spawn(|| {
                come_and_go(100);
                live.wait();
                ended.wait();
                come_and_go(100);
            });
            live.wait();
            let token = gone(|| come_and_go(100));
            let before = heaps_of(token);
            c::trim();
            let numbered = all_heaps().filter(|h| h.thread().load(Relaxed) != 0).count();
            let seen = (before, heaps_of(token), numbered);
            ended.wait();
            seen
        });
        assert_eq!(seen, (1, 0, 1), "that of the thread that is gone; the other one lives");
    });
}

/// Runs `f` in a thread, and waits until the kernel has forgotten the thread. Returns its token.
fn gone(f: impl FnOnce() + Send + 'static) -> u32 {
    let thread = spawn(|| {
        f();
        (os::thread_token(), os::numbers().1)
    });
    let (token, number) = thread.join().unwrap();
    while os::is_thread(number) {
        thread::yield_now();
    }
    token
}

/// The thread that initialises the process may get its heap meanwhile.
#[test]
fn a_heap_from_before_there_was_a_key_is_given_back() {
    alone("thread::tests::a_heap_from_before_there_was_a_key_is_given_back", || {
        let thread = spawn(|| {
            let key = KEY.swap(NO_KEY, Relaxed);
            come_and_go(100);
            os::drop_exit_key(key);
            PROCESS.store(UNINITIALISED, Release);
            let numbered = || all_heaps().filter(|h| h.thread().load(Relaxed) != 0).count();
            assert_eq!(numbered(), 1);
            initialise();
            assert_eq!(numbered(), 0, "it would be taken over, though a destructor gives it back");
            let me = os::thread_token();
            (me, heaps_of(me))
        });
        let (token, heaps) = thread.join().unwrap();
        assert_eq!((heaps, heaps_of(token)), (1, 0));
    });
}

#[test]
fn what_is_unloaded_is_not_called() {
    alone("thread::tests::what_is_unloaded_is_not_called", || {
        come_and_go(100);
        let key = KEY.load(Relaxed);
        assert_ne!(key, NO_KEY);
        stop();
        assert_eq!(KEY.load(Relaxed), NO_KEY);
        #[cfg(target_env = "gnu")]
        {
            // SAFETY: a key that was deleted is an error for glibc, not a memory access.
            let error = unsafe { libc::pthread_setspecific(key, (&raw const KEY).cast()) };
            assert_eq!(error, libc::EINVAL);
        }
        // A thread that still allocates gets memory.
        spawn(|| come_and_go(100)).join().unwrap();
        come_and_go(3 << 20);
    });
}

#[test]
fn what_is_unloaded_gives_its_memory_up() {
    in_child(|| {
        keep_nothing_back();
        // SAFETY: each block has `n` bytes, and is freed once. Later its address is only looked up,
        // not read.
        unsafe {
            crate::profile::stop();
            // No other code here uses these sizes.
            let blocks = [45_000, 300_000, 5 << 20].map(|n| {
                let p = c::malloc(n);
                p.write_bytes(1, n);
                p
            });
            blocks.into_iter().for_each(|p| c::free(p));
            let is_there = |p: &&*mut u8| {
                let mut page = [os::Page::Absent];
                os::Pagemap::open().unwrap().read(p.addr(), &mut page)
                    && page == [os::Page::Resident]
            };
            let there = || blocks.iter().filter(is_there).count();
            assert_eq!(there(), 3, "they are kept");
            // In a signal handler that interrupted a pass, nothing is given back.
            let held = purge::LOCK.lock();
            give_all_up();
            assert_eq!(there(), 3);
            drop(held);
            give_all_up();
            assert_eq!(there(), 0);
        }
        come_and_go(100);
        come_and_go(5 << 20);
    });
}
