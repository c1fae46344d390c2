//! The scavenger: a thread that gives memory back while the program itself is idle.
//!
//! It is made with a bare `clone`, not `pthread_create`: the moment it is needed is inside a `free`, and glibc frees
//! memory while it holds the very locks that `pthread_create` takes. It runs no code but this crate's, on a stack of
//! its own, with an empty thread-local storage, every signal blocked, and without capabilities. It ends when there is
//! little to do, and is made anew when there is: a program that counts its threads, or drops its rights (which libc does
//! for the threads that it knows), seldom meets it.
//!
//! When it begins and ends: `proto::duty`. fork leaves the child without one.

use crate::proto::duty::{Call, Duty};
use crate::sync::{AtomicBool, AtomicU32, Ordering::*};
use crate::{learn, os, policy, purge};

#[unsafe(link_section = ".data.hakmem")]
static DUTY: Duty = Duty::new();
/// When the scavenger last was seen at work, in coarse milliseconds. A child that was made without fork's handlers
/// (vfork, a raw system call) has the state, but not the thread: then this stands still.
static SEEN: AtomicU32 = AtomicU32::new(0);
/// What the scavenger sleeps on for a time; nobody changes it.
static NAP: AtomicU32 = AtomicU32::new(0);
#[unsafe(link_section = ".data.hakmem")]
static STOP: AtomicBool = AtomicBool::new(false);
/// Milliseconds after which a scavenger that should be at work is not counted on.
const OVERDUE: u32 = 5_000;

/// Sees to it that the scavenger is at work. False if there is none to count on now.
pub fn wake() -> bool {
    match DUTY.call() {
        Call::Running => os::age(os::now_ms(), SEEN.load(Relaxed)) < OVERDUE,
        Call::None => start(),
        Call::Failed => false,
    }
}

/// With all signals blocked, so that no handler forks between the steps and makes another one in the child.
#[cold]
fn start() -> bool {
    let mask = os::block_signals();
    // In a borrowed process it would end with the child of vfork, maybe with a lock held in the memory that it shares.
    let made = !os::in_borrowed_process()
        && DUTY.begin(|| {
            SEEN.store(os::now_ms(), Relaxed);
            os::spawn_bare(work, &DUTY.alive)
        });
    os::restore_signals(mask);
    made
}

/// Ends the scavenger for good, and waits for its end: its code may be unmapped next. That takes as long as a pass. Only
/// a tenth of a second if this thread was interrupted `in_the_middle` of what the scavenger may be waiting for.
pub fn stop(in_the_middle: bool) {
    STOP.store(true, SeqCst);
    DUTY.fail();
    let mut patience = if in_the_middle { 100 } else { 60_000 };
    loop {
        let thread = DUTY.alive.load(Acquire);
        // In a child that was made without fork's handlers, the thread is not there.
        if thread == 0 || patience == 0 || !os::is_thread(thread) {
            return;
        }
        os::futex_wake(&NAP);
        os::futex_wait(&DUTY.alive, thread, Some(1));
        patience -= 1;
    }
}

/// True while the scavenger's thread is there.
#[cfg(shuttle)]
pub fn is_alive() -> bool {
    DUTY.alive.load(Acquire) != 0
}

/// In the child of a fork there is no scavenger until one is needed.
pub fn after_fork() {
    DUTY.after_fork();
}

/// True if there is enough to do for the scavenger to stay awake.
fn is_needed() -> bool {
    purge::idle_bytes() >= (policy::SCAVENGE_MIB.get() as usize) << 20
}

/// Milliseconds from a pass to the next.
fn nap() -> u32 {
    let nap = policy::DECAY_MS.get().clamp(20, 60_000) / 2;
    if learn::is_on() { nap.min(2 * learn::PASS_MS) } else { nap }
}

/// The scavenger's life; its thread ends when this returns.
extern "C" fn work() {
    let mut fruitless = 0;
    os::drop_capabilities();
    loop {
        SEEN.store(os::now_ms(), Relaxed);
        let nap = nap();
        // Memory that cannot be given back (locked, say) is tried ever more rarely.
        os::futex_wait(&NAP, 0, Some(nap << (fruitless / 8).min(6)));
        if STOP.load(SeqCst) {
            return;
        }
        let given = purge::pass(os::now_ms(), policy::DECAY_MS.get());
        fruitless = if given > 0 { 0 } else { (fruitless + 1).min(64) };
        // What was freed last is due after the decay.
        let goes_on = purge::idle_bytes() > 0 && (fruitless <= (policy::DECAY_MS.get() / nap).max(2) || is_needed());
        if !goes_on && DUTY.end(is_needed) {
            return;
        }
    }
}

// Miri has no fork, and models have a scavenger of their own.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use crate::c;
    use crate::in_child::in_child;
    use std::vec::Vec;

    fn is_at_work() -> bool {
        DUTY.alive.load(Acquire) != 0
    }

    /// More than is worth a thread.
    fn free_much() {
        // SAFETY: blocks of this allocator, each freed once.
        unsafe {
            let blocks: Vec<_> = (0..16).map(|_| c::malloc(4 << 20)).collect();
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

    /// Of what the scavenger waits for: this thread, which does not end, stands for one that does not either.
    #[test]
    fn who_is_in_the_middle_does_not_wait_for_long() {
        in_child(|| {
            // SAFETY: no preconditions.
            let me = unsafe { libc::gettid() } as u32;
            assert!(os::is_thread(me));
            DUTY.alive.store(me, Release);
            stop(true);
            assert!(is_at_work());
        });
    }

    #[test]
    fn a_scavenger_that_was_not_copied_is_not_waited_for() {
        in_child(|| {
            DUTY.alive.store(1 << 30, Release);
            stop(false);
        });
    }

    #[test]
    fn a_child_has_a_scavenger_of_its_own() {
        in_child(|| {
            free_much();
            let ours = DUTY.alive.load(Acquire);
            assert!(os::is_thread(ours));
            in_child(|| {
                assert!(!is_at_work());
                free_much();
                let theirs = DUTY.alive.load(Acquire);
                assert!(theirs != ours && os::is_thread(theirs));
                stop(false);
            });
            stop(false);
        });
    }
}
