//! Forks at moments that only a signal handler, or a fork handler, makes of them.

extern crate std;

use super::*;
use crate::alone::alone;
use crate::c;
use crate::in_child::{goes_well_in_child, in_child};
use std::sync::{Barrier, Mutex, MutexGuard, mpsc};
use std::vec::Vec;

/// The locks, and who forks, are the process's.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|failed| failed.into_inner())
}

/// Blocks of all kinds are to be had, and go back.
fn go_on() {
    for n in [8, 100, 9000, 70_000, 3 << 20] {
        // SAFETY: blocks of this allocator, each freed once.
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

/// The signals that the calling thread has blocked.
fn blocked() -> u64 {
    let now = os::block_signals();
    os::restore_signals(now);
    now
}

#[test]
fn a_fork_inside_a_fork_is_part_of_it() {
    let _turn = turn();
    go_on();
    let me = os::thread_token();
    // What is seen is looked at when no lock is held any more: others could not go on.
    let all_held = || LOCKS.iter().all(|l| l.0.is_held_for_fork(me));
    let depth = || entry_of(me).map(|own| own.depth.load(Relaxed));
    let signals = blocked();
    before_fork();
    let outer = (all_held(), depth(), blocked());
    before_fork();
    let inner = (all_held(), depth());
    after_fork();
    let outer_again = (all_held(), depth());
    after_fork();
    assert!(outer.0 && inner.0 && outer_again.0, "{outer:?} {inner:?} {outer_again:?}");
    assert_eq!((outer.1, inner.1, outer_again.1), (Some(0), Some(1), Some(0)));
    assert!(outer.2 & !signals != 0, "no handler may fork in the middle");
    assert!(!LOCKS.iter().any(|l| l.0.is_held_for_fork(me)));
    assert_eq!((depth(), blocked()), (None, signals));
}

/// One that waits for none: it may be what their holders wait for.
#[test]
fn a_fork_under_a_lock_takes_those_that_are_free() {
    let _turn = turn();
    in_child(|| {
        let me = os::thread_token();
        for Guarded(own, _) in &LOCKS {
            let held = own.lock();
            before_fork();
            let free = LOCKS.iter().filter(|l| !core::ptr::eq(l.0, *own));
            assert!(free.clone().all(|l| l.0.is_held_for_fork(me)) && !own.is_held_for_fork(me));
            after_fork();
            assert!(!LOCKS.iter().any(|l| l.0.is_held_for_fork(me)) && own.is_held_by(me));
            drop(held);
        }
    });
}

/// A child that is made in the usual way holds nothing, and nobody's entry is left but its own.
#[test]
fn a_child_holds_nothing() {
    let _turn = turn();
    go_on();
    let signals = blocked();
    in_child(|| {
        assert!(!LOCKS.iter().any(|l| l.0.is_held_for_fork(os::thread_token())));
        assert!(FORKERS.iter().all(|f| f.who.load(Relaxed) == 0 && f.depth.load(Relaxed) == 0));
        assert_eq!(blocked(), signals);
        go_on();
        in_child(go_on);
    });
    assert_eq!(blocked(), signals);
}

/// Of pages of which two blocks stay, some are set aside.
fn sets_aside() -> bool {
    let pages = || all_heaps().map(|h| h.counts.set_aside.get()).sum::<u64>();
    let before = pages();
    // SAFETY: blocks of this allocator, each freed once; those that stay are nobody's.
    unsafe {
        let blocks: Vec<_> = (0..20 * 256).map(|_| c::malloc(256)).collect();
        blocks.into_iter().filter(|p| p.addr() % (64 << 10) >= 512).for_each(|p| c::free(p));
    }
    pages() > before
}

/// A thread that holds a lock forks in its signal handler, while another thread holds another one, and no further thread
/// a third one.
#[test]
fn what_another_thread_held_is_free_in_a_child_made_under_a_lock() {
    alone("thread::fork::tests::what_another_thread_held_is_free_in_a_child_made_under_a_lock", || {
        go_on();
        for other in 0..LOCKS.len() {
            (0..LOCKS.len()).filter(|&own| own != other).for_each(|own| forks_under(own, other));
        }
    });
}

/// Forks with the lock `own`, while another thread has `other`.
fn forks_under(own: usize, other: usize) {
    let torn = &LOCKS[other];
    let me = os::thread_token();
    let (both, over) = (Barrier::new(2), Barrier::new(2));
    // SAFETY: a whale of this allocator: it stays in the cache.
    unsafe { c::free(c::malloc(3 << 20)) };
    assert!(whale::cached_bytes() > 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let held = torn.0.lock();
            both.wait();
            over.wait();
            drop(held);
        });
        both.wait();
        let free_of = !super::super::holds_a_lock();
        let held = LOCKS[own].0.lock();
        let is_in_the_middle = super::super::holds_a_lock();
        let goes_well = goes_well_in_child(|| {
            // What was torn is given up.
            assert!(!core::ptr::eq(torn.0, &whale::LOCK) || whale::cached_bytes() == 0);
            assert!(LOCKS[own].0.is_held_by(me), "this thread goes on with it");
            assert!(LOCKS.iter().enumerate().all(|(i, l)| i == own || !l.0.is_held_by(me)));
            assert!(!LOCKS.iter().any(|l| l.0.is_held_by_other_than(me)));
            LOCKS[own].0.release();
            go_on();
            let interval = if profile::interval() > 0 { profile::interval() } else { profile::DEFAULT_INTERVAL };
            assert_eq!(profile::start(interval), !core::ptr::eq(torn.0, &profile::LOCK));
            profile::stop();
            if own == (other + 1) % LOCKS.len() {
                assert_eq!(sets_aside(), !core::ptr::eq(torn.0, &sparse::LOCK));
                go_on();
            }
        });
        drop(held);
        over.wait();
        assert!(free_of && is_in_the_middle);
        assert!(goes_well, "under lock {own}, while another thread held {other}");
    });
}

/// Whoever forks while there are as many who fork as there are entries does it without one.
#[test]
fn more_threads_than_entries_fork_at_once() {
    let _turn = turn();
    go_on();
    let me = os::thread_token();
    let taken: Vec<_> =
        FORKERS.iter().zip(1..).filter(|(f, who)| f.who.compare_exchange(0, *who, Acquire, Relaxed).is_ok()).collect();
    let signals = blocked();
    before_fork();
    let (held, entry, masked) =
        (LOCKS.iter().all(|l| l.0.is_held_for_fork(me)), entry_of(me).is_some(), blocked() != signals);
    after_fork();
    let let_go = !LOCKS.iter().any(|l| l.0.is_held_for_fork(me));
    taken.iter().for_each(|(f, _)| f.who.store(0, Release));
    assert_eq!((held, entry, masked, let_go), (true, false, false, true));
    assert_eq!(blocked(), signals);
}

/// No two threads that are there at once have one token.
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

/// Heaps of threads that are no more are for others to take; this thread keeps its own. The child has threads, which the
/// standard library cannot begin where a lock of its own was held at the fork.
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
            let with = |who: u32| all_heaps().filter(|h| h.tenure.with() == With::Thread(who)).count();
            let before = (with(me), with(other));
            let goes_well = goes_well_in_child(|| {
                assert_eq!((with(me), with(other)), (1, 0));
                let made = super::super::heaps_made();
                std::thread::spawn(go_on).join().unwrap();
                assert_eq!(super::super::heaps_made(), made, "there is one to adopt");
                assert_eq!(with(me), 1);
                go_on();
            });
            over.wait();
            assert_eq!(before, (1, 1));
            assert!(goes_well);
        });
    });
}
