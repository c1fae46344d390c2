//! The scavenger: a thread that gives memory back while the program itself is idle.
//!
//! It is made with a bare `clone`, not `pthread_create`: the moment it is needed is inside a `free`, and glibc frees
//! memory while it holds the very locks that `pthread_create` takes. It runs no code but this crate's, on a stack of
//! its own, with an empty thread-local storage and every signal blocked. It ends when there is little to do, and is made anew
//! when there is.
//!
//! Rules
//! 1. It has the rights of the thread that made it, no more and no fewer: the kernel judges access by thread. libc does not
//!    know of it, and does not take rights from it. So it ends before the process changes its rights, where somebody says so
//!    (`hold`), and does not live for long in any case: who wakes one that is older than `LIFE_MS` replaces it.
//! 2. Where nobody says so, it is made only in processes that have, or had, a second thread: what the kernel refuses to
//!    processes with several threads was refused there before.
//! 3. It ends before a fork, so that the parent has the threads that it made.
//!
//! When it begins and ends: `proto::worker`.

use crate::base::sync::{AtomicBool, AtomicU32, Ordering::*};
use crate::policy::learn;
use crate::proto::worker::{Call, Worker};
use crate::{os, policy, purge};

#[unsafe(link_section = ".data.hakmem")]
static WORKER: Worker = Worker::new();
/// When the last scavenger was made, or could not be, in coarse milliseconds.
static MADE: AtomicU32 = AtomicU32::new(0);
/// The number of its thread.
#[unsafe(link_section = ".data.hakmem")]
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// Whether the last one could not be made.
static FAILED: AtomicBool = AtomicBool::new(false);
/// Whether somebody says so before the process changes its rights (rule 2).
#[unsafe(link_section = ".data.hakmem")]
static ANNOUNCED: AtomicBool = AtomicBool::new(false);

/// Milliseconds after which a scavenger is replaced.
const LIFE_MS: u32 = 1_000;
/// Milliseconds from one that could not be made to the next try.
const RETRY_MS: u32 = 1_000;

/// Sees to it that the scavenger is at work. False if there is none to count on now.
pub fn wake() -> bool {
    match WORKER.call() {
        Call::Running if os::age(os::now_ms(), MADE.load(Relaxed)) < LIFE_MS => true,
        Call::Running => replace(),
        Call::None => start(),
        Call::Held => false,
    }
}

/// With all signals blocked, so that no handler forks between the steps and makes another one in the child.
#[cold]
fn start() -> bool {
    let now = os::now_ms();
    let may = ANNOUNCED.load(Relaxed) || !os::is_single_threaded();
    let too_soon = FAILED.load(Relaxed) && os::age(now, MADE.load(Relaxed)) < RETRY_MS;
    // In a borrowed process it would end with the child of vfork, maybe with a lock held in the memory that it shares.
    if !may || too_soon || os::in_borrowed_process() {
        return false;
    }
    let mask = os::block_signals();
    let begun = WORKER.begin(
        || is_gone_within(20),
        || {
            MADE.store(now, Relaxed);
            let number = os::spawn_bare(work, &WORKER.alive);
            NUMBER.store(number, Relaxed);
            FAILED.store(number == 0, Relaxed);
            number != 0
        },
    );
    os::restore_signals(mask);
    begun
}

/// The one that there is has lived for long: another one is made, with the rights that the process has by now. One that is
/// busy goes on. A child that was made without fork's handlers (vfork, a raw system call) finds the word of its parent's.
#[cold]
fn replace() -> bool {
    if os::in_borrowed_process() {
        return false;
    }
    if !WORKER.relieve() {
        return WORKER.call() == Call::Running;
    }
    if is_gone_within(20) { start() } else { WORKER.keep() }
}

/// Waits up to `ms` milliseconds for a scavenger that was dismissed. True if it is gone, from the kernel's books, too.
#[inline(always)]
fn is_gone_within(ms: u32) -> bool {
    WORKER.is_gone() && NUMBER.load(Relaxed) == 0 || wait_until_gone(ms)
}

#[cold]
#[inline(never)]
fn wait_until_gone(ms: u32) -> bool {
    let mut left = ms;
    while !WORKER.is_gone() {
        if left == ms {
            os::futex_wake(&WORKER.state);
        }
        let number = WORKER.alive.load(Acquire);
        // In a child that was made without fork's handlers, the thread is not there.
        if number > 1 && !os::is_thread(number) && WORKER.alive.load(Acquire) == number {
            return true;
        }
        if left == 0 {
            return false;
        }
        if number == 0 {
            os::sleep_us(50);
        } else {
            os::futex_wait_for_end(&WORKER.alive, number, 1);
        }
        left -= 1;
    }
    // The kernel says that the thread ends before it takes it off the process's threads.
    let number = NUMBER.swap(0, Relaxed);
    if number != 0 {
        (0..200).take_while(|_| os::is_thread(number)).for_each(|_| os::sleep_us(20));
    }
    true
}

/// Ends the scavenger, and keeps it away until `let_come`. Calls nest. Waits for its end, a second at most, and 20 ms if this thread
/// was interrupted `in_the_middle` of what the scavenger may be waiting for.
pub fn hold(in_the_middle: bool) {
    WORKER.hold();
    is_gone_within(if in_the_middle { 20 } else { 1_000 });
}

/// Ends one `hold`. True if nothing keeps the scavenger away any more.
pub fn let_come() -> bool {
    WORKER.release()
}

/// As `let_come`; the scavenger comes if there is work for it.
pub fn release() {
    if let_come() && is_needed() {
        wake();
    }
}

/// Ends the scavenger for good: a system call of its own would end the process.
pub fn forbid(in_the_middle: bool) {
    hold(in_the_middle);
    if WORKER.is_gone() {
        WORKER.forbid();
        let_come();
    }
}

/// From now on somebody holds the scavenger off before the process changes its rights (rule 2).
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn announce_rights() {
    ANNOUNCED.store(true, Relaxed);
}

/// Ends the scavenger for good, and waits for its end: its code may be unmapped next. Only a tenth of a second if this thread
/// was interrupted `in_the_middle` of what the scavenger may be waiting for.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn stop(in_the_middle: bool) {
    WORKER.hold();
    is_gone_within(if in_the_middle { 100 } else { 60_000 });
}

/// True while the scavenger's thread is there.
#[cfg(shuttle)]
pub fn is_alive() -> bool {
    WORKER.alive.load(Acquire) != 0
}

/// In the child of a fork there is no scavenger until one is needed.
pub fn after_fork() {
    NUMBER.store(0, Relaxed);
    WORKER.after_fork();
}

/// True if the scavenger is to leave in the middle of a pass.
pub fn is_dismissed() -> bool {
    WORKER.is_dismissed()
}

/// True if there is enough to do for the scavenger to stay awake.
fn is_needed() -> bool {
    let mib = policy::SCAVENGE_MIB.get() as usize;
    mib != 0 && purge::idle_bytes() >= mib << 20
}

/// Milliseconds from a pass to the next.
fn nap() -> u32 {
    let nap = policy::DECAY_MS.get().clamp(20, 60_000) / 2;
    if learn::is_on() { nap.min(2 * learn::PASS_MS) } else { nap }
}

/// The scavenger's life; its thread ends when this returns.
extern "C" fn work() {
    os::be_ordinary();
    let mut fruitless = 0;
    while let Some(napping) = WORKER.nap() {
        let nap = nap();
        // Memory that cannot be given back (locked, say) is tried ever more rarely.
        os::futex_wait(&WORKER.state, napping, Some(nap << (fruitless / 8).min(6)));
        if !WORKER.resume() {
            return;
        }
        let given = purge::pass(os::now_ms(), policy::DECAY_MS.get());
        fruitless = if given > 0 { 0 } else { (fruitless + 1).min(64) };
        // What was freed last is due after the decay.
        let is_off = policy::SCAVENGE_MIB.get() == 0;
        let is_patient = fruitless <= (policy::DECAY_MS.get() / nap).max(2) || is_needed();
        let goes_on = !is_off && purge::idle_bytes() > 0 && is_patient;
        if !goes_on && WORKER.end(is_needed) {
            return;
        }
    }
}

// Miri has no fork, and models have a scavenger of their own.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use crate::api::c;
    use crate::testing::in_child;
    use std::vec::Vec;

    fn is_at_work() -> bool {
        WORKER.alive.load(Acquire) != 0
    }

    /// More than is worth a thread.
    fn free_much() {
        // SAFETY: blocks of this allocator, each freed once.
        unsafe {
            let blocks: Vec<_> = (0..6).map(|_| c::malloc(4 << 20)).collect();
            for p in blocks {
                p.write(1);
                c::free(p);
            }
        }
    }

    /// In a process of its own, as it is for good.
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
            // Without one there is nothing to wait for.
            stop(true);
        });
    }

    #[test]
    fn who_is_held_off_is_off_the_books_and_comes_again() {
        in_child(|| {
            announce_rights();
            for _ in 0..20 {
                free_much();
                let number = NUMBER.load(Relaxed);
                assert!(os::is_thread(number));
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

    /// A number that cannot be a thread's stands for one that could not be made.
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

    /// It may have rights that the process has given up.
    #[test]
    fn an_old_one_is_replaced() {
        in_child(|| {
            announce_rights();
            policy::DECAY_MS.set(60_000); // It naps.
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

    /// It would be the process's second thread, and the kernel refuses some calls to a process that has one.
    #[test]
    fn a_process_with_one_thread_has_none_unless_it_announces_its_rights() {
        unsafe extern "C" {
            static mut __libc_single_threaded: core::ffi::c_char;
        }
        in_child(|| {
            assert!(!os::is_single_threaded(), "the tests have threads");
            // SAFETY: the child has one thread. libc leaves the word as it is in the child of a fork.
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

    /// Of what the scavenger waits for: this thread, which does not end, stands for one that does not either.
    #[test]
    fn who_is_in_the_middle_does_not_wait_for_long() {
        in_child(|| {
            // SAFETY: no preconditions.
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
}
