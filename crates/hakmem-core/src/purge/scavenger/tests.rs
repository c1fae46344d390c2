//! Unit tests of the scavenger.

extern crate std;

use super::*;
use crate::api::c;
use crate::testing::{BEHIND, in_child, keep_nothing_back};
use std::vec::Vec;

fn is_at_work() -> bool {
    WORKER.alive.load(Acquire) != 0
}

/// Frees enough memory for a scavenger.
fn free_much() {
    // SAFETY: each block has at least one byte, and is freed once.
    unsafe {
        let blocks: Vec<_> = (0..6).map(|_| c::malloc((4 << 20) - BEHIND)).collect();
        for p in blocks {
            p.write(1);
            c::free(p);
        }
    }
}

/// `stop` is for good, so the test needs its own process.
#[test]
fn what_is_stopped_is_gone_and_does_not_come_back() {
    in_child(|| {
        announce_rights();
        free_much();
        assert!(is_at_work());
        stop(false);
        assert!(!is_at_work());
        free_much();
        assert!(!is_at_work(), "it stays away");
        // There is no scavenger, so `stop` has nothing to wait for.
        stop(true);
    });
}

#[test]
fn who_is_held_off_is_off_the_books_and_comes_again() {
    in_child(|| {
        keep_nothing_back();
        announce_rights();
        for _ in 0..20 {
            free_much();
            let number = NUMBER.load(Relaxed);
            assert!(os::is_thread(number));
            ENDED.store(0, Relaxed);
            hold(false);
            hold(false);
            assert!(!is_at_work() && !os::is_thread(number));
            free_much();
            release();
            assert!(!is_at_work(), "somebody holds it off still");
            release();
            assert!(is_at_work(), "there is work for it");
        }
        forbid(false);
        free_much();
        assert!(!is_at_work());
    });
}

/// The last one may end while the next one is begun, on its stack.
#[test]
fn the_next_one_comes_when_the_last_one_has_ended() {
    in_child(|| {
        WORKER.alive.store(1, Relaxed);
        let ends = || {
            WORKER.alive.store(0, Release);
            last_is_gone()
        };
        assert!(WORKER.begin(ends, || true));
    });
}

/// Rule 4.
#[test]
fn after_many_ends_it_comes_later() {
    in_child(|| {
        keep_nothing_back();
        announce_rights();
        let ends = (0..1000).take_while(|_| {
            free_much();
            // A new second would begin a new count.
            SECOND.store(os::now_ms(), Relaxed);
            let was_at_work = is_at_work();
            hold(false);
            release();
            was_at_work
        });
        assert_eq!(ends.count(), MOST_ENDED as usize);
        free_much();
        assert!(!is_at_work());
        SECOND.store(os::now_ms().wrapping_sub(1_000), Relaxed);
        free_much();
        assert!(is_at_work());
    });
}

/// The flag `FAILED` alone stands for an attempt that failed.
#[test]
fn one_that_could_not_be_made_is_tried_again() {
    in_child(|| {
        announce_rights();
        FAILED.store(true, Relaxed);
        MADE.store(os::now_ms(), Relaxed);
        free_much();
        assert!(!is_at_work(), "it is too soon");
        MADE.store(os::now_ms().wrapping_sub(RETRY_MS), Relaxed);
        free_much();
        assert!(is_at_work());
    });
}

/// An old scavenger may have rights that the process has given up.
#[test]
fn an_old_one_is_replaced() {
    in_child(|| {
        announce_rights();
        policy::DECAY_MS.set(60_000); // The scavenger naps long.
        free_much();
        let first = NUMBER.load(Relaxed);
        free_much();
        assert_eq!(NUMBER.load(Relaxed), first, "it is young");
        while NUMBER.load(Relaxed) == first {
            MADE.store(os::now_ms().wrapping_sub(LIFE_MS), Relaxed);
            free_much();
        }
        assert!(is_at_work() && !os::is_thread(first));
    });
}

/// A scavenger would be the process's second thread, and the kernel refuses some calls to a
/// process that has one. Only glibc says how many threads there are.
#[cfg(target_env = "gnu")]
#[test]
fn a_process_with_one_thread_has_none_unless_it_announces_its_rights() {
    unsafe extern "C" {
        static mut __libc_single_threaded: core::ffi::c_char;
    }
    in_child(|| {
        assert!(!os::is_single_threaded(), "the tests have threads");
        // SAFETY: the child has one thread, so no other thread uses the variable. In the child
        // of a fork libc leaves the variable as it is.
        unsafe { __libc_single_threaded = 1 };
        assert!(os::is_single_threaded());
        free_much();
        assert!(!is_at_work());
        announce_rights();
        free_much();
        assert!(is_at_work());
        stop(false);
    });
}

#[test]
fn it_ends_when_it_is_not_wanted_any_more() {
    in_child(|| {
        announce_rights();
        policy::DECAY_MS.set(40);
        free_much();
        policy::SCAVENGE_MIB.set(0);
        while is_at_work() {
            os::sleep_us(1000);
        }
    });
}

/// The scavenger may wait for something that this thread holds. This thread, which does not
/// end, stands for such a scavenger.
#[test]
fn who_is_in_the_middle_does_not_wait_for_long() {
    in_child(|| {
        // SAFETY: `gettid` takes nothing and cannot fail.
        let me = unsafe { libc::gettid() } as u32;
        assert!(os::is_thread(me));
        WORKER.alive.store(me, Release);
        stop(true);
        assert!(is_at_work());
    });
}

#[test]
fn a_scavenger_that_was_not_copied_is_not_waited_for() {
    in_child(|| {
        WORKER.alive.store(1 << 30, Release);
        stop(false);
    });
}

#[test]
fn a_child_has_a_scavenger_of_its_own() {
    in_child(|| {
        announce_rights();
        free_much();
        let ours = WORKER.alive.load(Acquire);
        assert!(os::is_thread(ours));
        in_child(|| {
            assert!(!is_at_work());
            free_much();
            let theirs = WORKER.alive.load(Acquire);
            assert!(theirs != ours && os::is_thread(theirs));
            stop(false);
        });
        assert!(!is_at_work(), "it ended before the fork");
        free_much();
        assert!(is_at_work(), "it comes when it is needed");
        stop(false);
    });
}
