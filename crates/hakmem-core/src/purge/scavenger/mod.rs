//! The scavenger: a thread that makes the passes of the purge, as soon as 16 MiB may be free. So
//! the memory of a program that stops all calls goes back, too.
//!
//! A bare `clone` makes the thread, not `pthread_create`. The need for it arises inside a `free`,
//! and glibc frees memory while it holds the same locks that `pthread_create` takes. The thread
//! runs only code of this crate, on its own stack, with an empty thread-local storage, and with all
//! signals blocked. It exits when there is little to do, and the next need starts a new one.
//!
//! Rules
//! 1. The scavenger has exactly the rights of the thread that made it: the kernel checks access by
//!    thread. libc does not know the scavenger, and does not change its rights. So the scavenger
//!    ends before the process changes its rights, if the program calls `hold`. In any case the
//!    `wake` that finds one older than `LIFE_MS` replaces it.
//! 2. Without a promise to call `hold`, only a process that has or had a second thread gets a
//!    scavenger. What the kernel refuses to processes with several threads, it refused there
//!    before.
//! 3. The scavenger ends before a fork, so that the parent has only the threads that it made. The
//!    thread that forks gives back what is free (`purge::before_fork`).
//! 4. To end one and make the next costs as much as hundreds of calls. So where several were ended
//!    within a second, as by a file server that takes the rights of each client, the next one
//!    comes after that second, also where threads end by a system call ([`end`]). Until then slow
//!    paths make the passes.
//! 5. Where the system refuses the thread (`RLIMIT_NPROC`), and under a filter, slow paths make the
//!    passes. What was needed lately does not raise the budget then (`backend::lately`), so that
//!    little is left when the program makes no more calls. After a refusal slow paths try again
//!    once a second.
//!
//! `proto::worker` says when it begins and ends.

use crate::backend::lately::{self, Because};
use crate::base::sync::{AtomicBool, AtomicU32, Ordering::*};
use crate::heap::reclaim::sleeping::Pauses;
use crate::policy::{learner, limits};
use crate::proto::worker::{Call, Worker};
use crate::{os, policy, purge};

#[unsafe(link_section = ".data.hakmem")]
static WORKER: Worker = Worker::new();
/// When the last scavenger was made, or the attempt failed, in coarse milliseconds.
static MADE: AtomicU32 = AtomicU32::new(0);
/// The number of the scavenger's thread.
#[unsafe(link_section = ".data.hakmem")]
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// True if the last attempt to make one failed.
static FAILED: AtomicBool = AtomicBool::new(false);
/// True if the program has promised to call `hold` before the process changes its rights (rule 2).
#[unsafe(link_section = ".data.hakmem")]
static ANNOUNCED: AtomicBool = AtomicBool::new(false);

/// When the present second of `ENDED` began, in coarse milliseconds, and how many scavengers were
/// ended since by a `hold` (rule 4). Hints.
static SECOND: AtomicU32 = AtomicU32::new(0);
/// See `SECOND`.
static ENDED: AtomicU32 = AtomicU32::new(0);
/// After as many ends there is no scavenger for the rest of the second.
const MOST_ENDED: u32 = 8;

/// Notes that a `hold` ends a scavenger (rule 4).
fn note_end() {
    let now = os::now_ms();
    if os::age(now, SECOND.load(Relaxed)) < 1_000 {
        ENDED.fetch_add(1, Relaxed);
    } else {
        SECOND.store(now, Relaxed);
        ENDED.store(1, Relaxed);
    }
}

/// The milliseconds after which a scavenger is replaced.
const LIFE_MS: u32 = 1_000;
/// The milliseconds from a failed attempt to the next.
const RETRY_MS: u32 = 1_000;

/// Starts the scavenger if there is none. False: there is none, and the caller has to do the work.
pub fn wake() -> bool {
    match WORKER.call() {
        Call::Running if os::age(os::now_ms(), MADE.load(Relaxed)) < LIFE_MS => true,
        Call::Running => replace(),
        Call::None => start(),
        Call::Held => false,
    }
}

/// Starts the scavenger with all signals blocked. Else a signal handler could fork between two
/// steps, and start another one in the child.
#[cold]
fn start() -> bool {
    let now = os::now_ms();
    let may = ANNOUNCED.load(Relaxed) || !os::is_single_threaded();
    let too_soon = FAILED.load(Relaxed) && os::age(now, MADE.load(Relaxed)) < RETRY_MS
        || ENDED.load(Relaxed) >= MOST_ENDED && os::age(now, SECOND.load(Relaxed)) < 1_000;
    // In a child of vfork the scavenger would end with the child. If it held a lock then, the lock
    // would stay held in the memory that the child shares with its parent.
    if !may || too_soon || os::in_borrowed_process() {
        return false;
    }
    let mask = os::block_signals();
    let begun = WORKER.begin(last_is_gone, || {
        MADE.store(now, Relaxed);
        let number = os::spawn_bare(work, &WORKER.alive);
        NUMBER.store(number, Relaxed);
        FAILED.store(number == 0, Relaxed);
        lately::ignore_peaks(Because::Refused, number == 0);
        number != 0
    });
    os::restore_signals(mask);
    begun
}

/// Replaces a scavenger that has lived long by a new one, with the rights that the process has now.
/// A busy one goes on. In a child that was made without the fork handlers (vfork, a raw system
/// call), the word is that of the parent, so nothing is done.
#[cold]
fn replace() -> bool {
    if os::in_borrowed_process() {
        return false;
    }
    if !WORKER.relieve() {
        return WORKER.call() == Call::Running;
    }
    let is_gone = is_gone_within(20, || WORKER.is_gone());
    if !is_gone {
        // It gets no processor: other threads with real-time priority have them all. The caller
        // makes the pass, and others do not wait again for a while.
        MADE.store(os::now_ms(), Relaxed);
    }
    WORKER.keep();
    is_gone && start()
}

/// For who begins a scavenger: waits up to 20 ms for the end of the last one's thread. The phase
/// does not say that, as it is the next one's already.
fn last_is_gone() -> bool {
    is_gone_within(20, || !is_alive())
}

/// Waits up to `ms` milliseconds for the end of a scavenger that leaves, which `is_gone` tells.
/// True if it has ended, and the kernel does not count its thread any more.
#[inline(always)]
fn is_gone_within(ms: u32, is_gone: fn() -> bool) -> bool {
    is_gone() && NUMBER.load(Relaxed) == 0 || wait_until_gone(ms, is_gone)
}

#[cold]
#[inline(never)]
fn wait_until_gone(ms: u32, is_gone: fn() -> bool) -> bool {
    let mut left = ms;
    while !is_gone() {
        if left == ms {
            os::futex_wake(&WORKER.state);
        }
        let number = WORKER.alive.load(Acquire);
        // A child that was made without the fork handlers does not have the thread.
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
    // The kernel reports the end of the thread before it removes it from the threads of the
    // process.
    let number = NUMBER.swap(0, Relaxed);
    if number != 0 {
        (0..200).take_while(|_| os::is_counted(number)).for_each(|_| os::sleep_us(20));
    }
    true
}

/// Ends the scavenger, and prevents a new one until `let_come`. Calls nest. Waits for its end: a
/// second at most, and 20 ms if a signal interrupted this thread `in_the_middle` of something that
/// the scavenger may wait for.
pub fn hold(in_the_middle: bool) {
    if hold_for_fork(in_the_middle) {
        note_end();
    }
}

/// [`hold`] for a fork. Rule 4 does not count it, as a fork costs more than a scavenger. True if
/// there was one.
pub fn hold_for_fork(in_the_middle: bool) -> bool {
    let was = WORKER.call() == Call::Running;
    WORKER.hold();
    is_gone_within(if in_the_middle { 20 } else { 1_000 }, || WORKER.is_gone());
    was
}

/// Ends one `hold`. True if no other `hold` is left.
pub fn let_come() -> bool {
    WORKER.release()
}

/// Ends one `hold`. Starts the scavenger if there is work for it.
pub fn release() {
    if let_come() && is_needed() {
        wake();
    }
}

/// Ends the scavenger, as [`hold`] does, because a thread of the program is about to end. If that
/// is the last one, no scavenger may outlive it: the process ends with the status of the thread
/// that ends last. Other threads may start the next scavenger.
pub fn end(in_the_middle: bool) {
    hold(in_the_middle);
    let_come();
}

/// Ends the scavenger for good: a system call of the scavenger would end the process.
pub fn forbid(in_the_middle: bool) {
    hold(in_the_middle);
    lately::ignore_peaks(Because::Forbidden, true);
    if WORKER.is_gone() {
        WORKER.forbid();
        let_come();
    }
}

/// Promises that the program calls `hold` before the process changes its rights (rule 2).
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn announce_rights() {
    ANNOUNCED.store(true, Relaxed);
}

/// Ends the scavenger for good, and waits for its end, because its code may be unmapped next. The
/// wait is a tenth of a second at most if a signal interrupted this thread `in_the_middle` of
/// something that the scavenger may wait for.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn stop(in_the_middle: bool) {
    WORKER.hold();
    is_gone_within(if in_the_middle { 100 } else { 60_000 }, || WORKER.is_gone());
}

/// True while the scavenger's thread exists.
pub fn is_alive() -> bool {
    WORKER.alive.load(Acquire) != 0
}

/// Resets the state in the child of a fork, which has no scavenger until one is needed.
pub fn after_fork() {
    NUMBER.store(0, Relaxed);
    WORKER.after_fork();
}

/// True if the scavenger has to end. It checks this in the middle of a pass.
pub fn is_dismissed() -> bool {
    WORKER.is_dismissed()
}

/// True if there is enough work to keep the scavenger.
fn is_needed() -> bool {
    let mib = policy::SCAVENGE_MIB.get() as usize;
    mib != 0 && purge::expected_bytes() >= mib << 20
}

/// Makes the scavenger begin a pass now, if there may be a scavenger.
pub fn hurry() {
    if policy::SCAVENGE_MIB.get() != 0 && wake() {
        os::futex_wake(&WORKER.state);
    }
}

/// The milliseconds between two passes of the scavenger.
fn nap() -> u32 {
    // A wake between the check for urgent work and the sleep is lost, so this sleep is short.
    let most = if limits::soft() == usize::MAX { 60_000 } else { 500 };
    let nap = limits::decay().clamp(20, most) / 2;
    if learner::is_on() { nap.min(2 * learner::PASS_MS) } else { nap }
}

/// Runs the scavenger. Its thread ends when this returns.
extern "C" fn work() {
    os::be_ordinary();
    let mut fruitless = 0;
    while let Some(napping) = WORKER.nap() {
        let nap = nap();
        // Memory that the system does not take (such as locked memory) is tried ever more rarely.
        // Who was in a hurry before this thread slept has woken nobody.
        if !purge::limit::is_urgent() {
            os::futex_wait(&WORKER.state, napping, Some(nap << (fruitless / 8).min(6)));
        }
        if !WORKER.resume() {
            return;
        }
        limits::read_at_times(os::now_ms());
        let decay = if purge::limit::begin_urgent() { 0 } else { limits::decay() };
        let given = purge::pass(os::now_ms(), decay, Pauses::Yes);
        fruitless = if given > 0 { 0 } else { (fruitless + 1).min(64) };
        // The memory that was freed last is due after the decay.
        let is_off = policy::SCAVENGE_MIB.get() == 0;
        let is_patient = fruitless <= (policy::DECAY_MS.get() / nap).max(2) || is_needed();
        let goes_on = !is_off && purge::expected_bytes() > 0 && is_patient;
        if !goes_on && WORKER.end(is_needed) {
            return;
        }
    }
}

// Miri has no fork, and models have their own scavenger.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests;
