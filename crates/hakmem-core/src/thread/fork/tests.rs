//! Forks at moments that only a signal handler or a fork handler can choose.

extern crate std;

use super::*;
use crate::api::c;
use crate::heap::{all::heaps_made, pool, shared::SharedHeap};
use crate::proto::heap_state::Adopted;
use crate::testing::alone;
use crate::testing::{goes_well_in_child, in_child, keep_nothing_back};
use std::sync::{Barrier, Mutex, mpsc};
use std::vec::Vec;

/// Allocates and frees blocks of all kinds.
fn go_on() {
    for n in [8, 100, 9000, 70_000, 3 << 20] {
        // SAFETY: each block has `n` bytes, and is freed once.
        unsafe {
            let blocks: Vec<_> = (0..10).map(|_| c::malloc(n)).collect();
            for p in blocks {
                assert!(!p.is_null());
                p.write_bytes(1, n.min(10_000));
                c::free(p);
            }
        }
    }
    c::trim();
}

/// A thread that waits for a lock of the allocator may hold a lock of libc, which fork takes after
/// our handler.
#[test]
fn no_lock_is_held_across_a_fork() {
    in_child(|| {
        go_on();
        before_fork();
        let held = LOCKS
            .iter()
            .filter(|l| !core::ptr::eq(l.0, &profile::LOCK) && l.0.try_lock().is_none())
            .count();
        before_fork();
        after_fork();
        after_fork();
        assert_eq!(held, 0);
        go_on();
    });
}

/// The handler does not wait for ever: the lock's holder may wait for the thread that forks.
#[test]
fn a_pass_that_does_not_end_is_not_waited_for() {
    alone("thread::fork::tests::a_pass_that_does_not_end_is_not_waited_for", || {
        let (both, over) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let held = purge::LOCK.lock();
                both.wait();
                over.wait();
                drop(held);
            });
            both.wait();
            let goes_well = goes_well_in_child(go_on);
            over.wait();
            assert!(goes_well);
        });
    });
}

/// Before a fork, free memory goes back, but not while another thread has a lock: it may be
/// stopped, and the fork would wait for it.
#[test]
fn memory_goes_back_before_a_fork_while_no_other_thread_has_a_lock() {
    in_child(|| {
        crate::policy::SCAVENGE_MIB.set(0);
        let me = os::thread_token();
        // What goes back if another thread has `lock`.
        let given_back = |lock: Option<&Lock>| {
            // SAFETY: the block is freed once.
            unsafe { c::free(c::malloc(3 << 20)) };
            let before = purge::purged_bytes();
            let held = lock.map(|lock| lock.lock_as(me + 1));
            give_back(me);
            drop(held);
            purge::purged_bytes() - before
        };
        for Guarded(lock, _) in &LOCKS {
            assert_eq!(given_back(Some(lock)), 0);
        }
        crate::policy::DECAY_MS.set(5000);
        assert_eq!(given_back(None), 0, "a long decay: the program wishes to keep what is free");
        crate::policy::DECAY_MS.set(500);
        assert!(given_back(None) > 0);
    });
}

/// No pass begins while a thread forks. After the last fork, passes begin again.
#[test]
fn passes_wait_for_forks() {
    in_child(|| {
        crate::policy::SCAVENGE_MIB.set(0);
        let pass = || {
            // SAFETY: the block is freed once.
            unsafe { c::free(c::malloc(3 << 20)) };
            purge::pass(os::now_ms(), 0, crate::heap::reclaim::sleeping::Pauses::No)
        };
        c::trim();
        before_fork();
        before_fork();
        let two = pass();
        after_fork();
        let one = pass();
        after_fork();
        assert_eq!((two, one), (0, 0));
        assert!(pass() > 0);
        after_fork(); // One call too many, as after a handler that forked in between.
        assert!(pass() > 0);
    });
}

/// A purge of everything that pauses heaps ends early, so that the child does not lose one. A purge
/// for an allocation that fails does not.
#[test]
fn a_purge_with_pauses_makes_way_for_a_fork() {
    in_child(|| {
        keep_nothing_back();
        crate::policy::SCAVENGE_MIB.set(0);
        // SAFETY: each block is freed once.
        let fill = || unsafe { c::free(c::malloc(3 << 20)) };
        c::trim();
        fill();
        before_fork();
        assert_eq!(purge::all_with_pauses(), 0);
        assert!(purge::all() > 0);
        fill();
        after_fork();
        assert!(purge::all_with_pauses() > 0);
    });
}

/// Runs `f` while the thread tidies all idle heaps of `heaps`.
fn tidying_all(heaps: &mut dyn Iterator<Item = &'static SharedHeap>, f: &dyn Fn()) {
    match heaps.next() {
        None => f(),
        Some(heap) if heap.state().with() == With::Nobody => {
            let me = os::thread_token();
            pool::put_back_if_popped(heap, heap.state().tidy(me, || tidying_all(heaps, f)));
        }
        Some(_) => tidying_all(heaps, f),
    }
}

/// A heap that another thread held or tidied at the fork is idle in the child.
#[test]
fn heaps_that_were_being_tidied_are_idle_in_the_child() {
    alone("thread::fork::tests::heaps_that_were_being_tidied_are_idle_in_the_child", || {
        std::thread::spawn(go_on).join().unwrap();
        let idle = || all_heaps().filter(|h| h.state().with() == With::Nobody).count();
        let before = idle();
        let (both, over) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tidying_all(&mut all_heaps(), &|| {
                    both.wait();
                    over.wait();
                });
            });
            both.wait();
            // This thread pops one of the heaps meanwhile, and leaves it to the thread that holds
            // it.
            let popped = pool::pop(os::thread_token(), 0).is_none();
            let goes_well = goes_well_in_child(|| {
                assert_eq!(idle(), before);
                let made = heaps_made();
                std::thread::spawn(go_on).join().unwrap();
                assert_eq!(heaps_made(), made, "there is one to adopt");
            });
            over.wait();
            assert!(before > 0 && popped && goes_well);
        });
        assert_eq!(idle(), before);
    });
}

/// Allocates pages and frees all but two blocks of each. True if some of them were parked.
fn parks() -> bool {
    let pages = || all_heaps().map(|h| h.counts().parked.get()).sum::<u64>();
    let before = pages();
    // SAFETY: each block is freed once. No code uses the other blocks.
    unsafe {
        let blocks: Vec<_> = (0..20 * 256).map(|_| c::malloc(256)).collect();
        blocks.into_iter().filter(|p| p.addr() % (64 << 10) >= 512).for_each(|p| c::free(p));
    }
    pages() > before
}

/// A signal handler forks while its thread holds a lock, and another thread holds another lock.
#[test]
fn what_another_thread_held_is_free_in_a_child_made_under_a_lock() {
    alone(
        "thread::fork::tests::what_another_thread_held_is_free_in_a_child_made_under_a_lock",
        || {
            keep_nothing_back();
            go_on();
            for other in 0..LOCKS.len() {
                (0..LOCKS.len())
                    .filter(|&own| own != other)
                    .for_each(|own| forks_under(own, other));
            }
        },
    );
}

/// Another thread was fencing a block at the fork.
#[test]
#[cfg(feature = "hardened")]
fn a_child_fences_blocks_although_another_thread_was_at_it() {
    alone("thread::fork::tests::a_child_fences_blocks_although_another_thread_was_at_it", || {
        go_on();
        let (both, over) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let held = fence::LOCK.try_lock();
                both.wait();
                over.wait();
                drop(held);
            });
            both.wait();
            let goes_well = goes_well_in_child(|| {
                // One block in each tick of the clock is fenced.
                let is_fenced = || {
                    // SAFETY: the block is freed once.
                    unsafe {
                        let p = c::malloc(70_000);
                        c::free(p);
                        fence::has(p)
                    }
                };
                let mut tries = core::iter::repeat_with(is_fenced).take(10_000_000);
                assert!(tries.any(|fenced| fenced));
            });
            over.wait();
            assert!(goes_well);
        });
    });
}

/// Forks while this thread holds the lock `own`, and another thread holds `other`.
fn forks_under(own: usize, other: usize) {
    let broken = &LOCKS[other];
    let me = os::thread_token();
    let (both, over) = (Barrier::new(2), Barrier::new(2));
    // SAFETY: `malloc` returned the huge block, which is freed once. It stays in the cache.
    unsafe { c::free(c::malloc(3 << 20)) };
    assert!(huge::cached_bytes() > 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let held = broken.0.lock();
            both.wait();
            over.wait();
            drop(held);
        });
        both.wait();
        let free_of = !super::super::holds_a_lock();
        let held = LOCKS[own].0.lock();
        let is_in_the_middle = super::super::holds_a_lock();
        let goes_well = goes_well_in_child(|| {
            // The handler gave up what the broken lock guards.
            assert!(!core::ptr::eq(broken.0, &huge::LOCK) || huge::cached_bytes() == 0);
            assert!(LOCKS[own].0.is_held_by(me), "this thread goes on with it");
            assert!(LOCKS.iter().enumerate().all(|(i, l)| i == own || !l.0.is_held_by(me)));
            assert!(!LOCKS.iter().any(|l| l.0.is_held_by_other_than(me)));
            LOCKS[own].0.reset();
            go_on();
            let interval = if profile::interval() > 0 {
                profile::interval()
            } else {
                profile::DEFAULT_INTERVAL
            };
            assert_eq!(profile::start(interval), !core::ptr::eq(broken.0, &profile::LOCK));
            profile::stop();
            if own == (other + 1) % LOCKS.len() {
                assert_eq!(parks(), !core::ptr::eq(broken.0, &parked::LOCK));
                go_on();
            }
        });
        drop(held);
        over.wait();
        assert!(free_of && is_in_the_middle);
        assert!(goes_well, "under lock {own}, while another thread held {other}");
    });
}

/// No two threads that exist at the same time have the same token.
#[test]
fn every_thread_has_a_token_of_its_own() {
    const THREADS: usize = 200;
    let (over, tokens) = (Barrier::new(THREADS), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                tokens.lock().unwrap().push(os::thread_token());
                over.wait();
            });
        }
    });
    let mut tokens = tokens.into_inner().unwrap();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), THREADS);
    assert!(tokens.iter().all(|&token| token > 0 && token < 1 << 30));
}

/// A thread that ended without a destructor may have had the token of the thread that forks.
#[test]
fn the_heap_of_an_ended_thread_with_the_same_token_becomes_idle() {
    alone(
        "thread::fork::tests::the_heap_of_an_ended_thread_with_the_same_token_becomes_idle",
        || {
            go_on();
            let me = os::thread_token();
            let heap = crate::heap::all::make(me).unwrap();
            heap.thread().store(u64::from(os::numbers().0) << 32 | 1, Relaxed);
            assert!(goes_well_in_child(|| {
                assert_eq!((heap.state().with(), heap.thread().load(Relaxed)), (With::Nobody, 0));
                go_on();
            }));
        },
    );
}

/// Heaps of threads that the child does not have can be adopted; the thread that forked keeps its
/// own. The child starts a thread. The standard library cannot do that if another thread held one
/// of its locks at the fork, so this test runs alone.
#[test]
fn heaps_of_other_threads_become_idle() {
    alone("thread::fork::tests::heaps_of_other_threads_become_idle", || {
        go_on();
        let me = os::thread_token();
        let (sender, receiver) = mpsc::channel();
        let over = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                go_on();
                sender.send(os::thread_token()).unwrap();
                over.wait();
            });
            let other = receiver.recv().unwrap();
            let with =
                |who: u32| all_heaps().filter(|h| h.state().with() == With::Thread(who)).count();
            let before = (with(me), with(other));
            let goes_well = goes_well_in_child(|| {
                assert_eq!((with(me), with(other)), (1, 0));
                let made = heaps_made();
                std::thread::spawn(go_on).join().unwrap();
                assert_eq!(heaps_made(), made, "there is one to adopt");
                assert_eq!(with(me), 1);
                go_on();
            });
            over.wait();
            assert_eq!(before, (1, 1));
            assert!(goes_well);
        });
    });
}

/// Forks while another thread's purge has `heap` paused. The child finds the heap lost, and runs
/// `f`.
fn forks_with_pause_of(heap: &'static SharedHeap, f: impl FnOnce()) {
    heap.pause().stop();
    let goes_well = goes_well_in_child(|| {
        assert_eq!(heap.state().adopt(os::thread_token()), Adopted::Lost);
        assert_eq!(heap.thread().load(Relaxed), 0);
        f();
        go_on();
    });
    heap.pause().resume();
    assert!(goes_well);
}

/// The calling thread's heap.
fn own() -> &'static SharedHeap {
    super::super::with_heap(Some).unwrap().shared()
}

/// A purge may have half changed the heap of the thread that forks.
#[test]
fn the_child_gets_another_heap_if_a_purge_had_its_own() {
    alone("thread::fork::tests::the_child_gets_another_heap_if_a_purge_had_its_own", || {
        go_on();
        // SAFETY: `malloc` takes any size. The child frees the block once.
        let (heap, block) = (own(), unsafe { c::malloc(100) }.expose_provenance());
        forks_with_pause_of(heap, || {
            assert!(matches!(tls::state(), ThreadState::Empty));
            // SAFETY: as above.
            unsafe { c::free(os::at(block)) };
            assert!(!core::ptr::eq(own(), heap));
            assert_eq!(own().state().with(), With::Thread(os::thread_token()));
        });
        // The purge left the heap alone if the thread was inside.
        heap.pause().enter();
        heap.pause().stop();
        assert!(goes_well_in_child(|| {
            heap.pause().leave();
            assert!(core::ptr::eq(own(), heap));
            go_on();
        }));
        heap.pause().resume();
        heap.pause().leave();
    });
}

/// The same if the thread is in scopes: its word leads to these.
#[test]
fn a_child_in_a_scope_gets_another_heap() {
    alone("thread::fork::tests::a_child_in_a_scope_gets_another_heap", || {
        let of_program = registry::make("scoped", None).expect("memory");
        let heap = own();
        (0..2).for_each(|_| scope::enter(of_program).expect("memory"));
        forks_with_pause_of(heap, || {
            assert!(!core::ptr::eq(own(), heap));
            go_on();
            assert!(scope::leave(of_program) && scope::leave(of_program));
            assert_eq!(own().state().with(), With::Thread(os::thread_token()));
        });
        assert!(scope::leave(of_program) && scope::leave(of_program));
    });
}

/// The heap's thread ended while a purge had the heap paused.
#[test]
fn an_idle_heap_that_a_purge_had_is_lost() {
    alone("thread::fork::tests::an_idle_heap_that_a_purge_had_is_lost", || {
        go_on();
        std::thread::spawn(go_on).join().unwrap();
        let idle = all_heaps().find(|heap| heap.state().with() == With::Nobody).unwrap();
        forks_with_pause_of(idle, || {
            std::thread::spawn(go_on).join().unwrap();
            assert_eq!(idle.state().adopt(1), Adopted::Lost);
        });
    });
}
