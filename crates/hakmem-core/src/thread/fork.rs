//! fork: what the child gets is usable, whatever the other threads were about.
//!
//! The thread that forks holds every lock meanwhile, with all signals blocked, so that no handler forks in the middle of
//! that. In the child it is alone: other threads' heaps go to the pool, but for those that were caught in the middle of a
//! change, which are lost (their blocks can still be freed; nothing is ever allocated from them).
//!
//! The child's memory is what each thread had written up to some one moment of its own: the kernel stops a thread at its
//! first write to what it has copied already, and whoever saw a write of another thread comes after it.
//!
//! Rules
//! 1. A thread that holds a lock already (its signal handler forks) is *entangled*: it must not wait for further locks,
//!    whose holders may wait for it. It takes what is free; what another thread holds is *torn* in the child, where the
//!    lock is reset and what it guards given up, as far as it may be half written.
//! 2. Everybody else waits for the locks in their order (`thread` rule 3).
//! 3. Of `FORKERS` an entry belongs to the thread that put its token there.

use super::{HEAPS_LOCK, QUARRY, all_heaps, put_back};
use crate::mutant::{Mutant, is};
use crate::proto::lock::Lock;
use crate::proto::tenure::With;
use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::{arena, foreign, heap, large, learn, os, profile, purge, sparse, whale};

/// A lock, and what puts right in the child what it guards, should it be torn.
struct Guarded(&'static Lock, fn());

/// Every lock, in the order they are taken in.
static LOCKS: [Guarded; 8] = [
    Guarded(&foreign::LOCK, || ()), // The search is made again.
    Guarded(&purge::LOCK, || ()),   // It only keeps passes apart.
    Guarded(&HEAPS_LOCK, forget_quarry),
    Guarded(&profile::LOCK, profile::give_up),
    Guarded(&sparse::LOCK, sparse::give_up_all),
    Guarded(&whale::LOCK, whale::forget_cache),
    Guarded(&arena::LOCK, || ()), // Each bit by itself is true at any time.
    Guarded(&learn::LOCK, learn::forget),
];

/// A thread that forks.
struct Forker {
    /// Its token, 0: nobody's.
    who: AtomicU32,
    /// Forks by other fork handlers, inside this fork.
    depth: AtomicU32,
    /// The signals that it had blocked.
    mask: AtomicU64,
}
static FORKERS: [Forker; 16] =
    [const { Forker { who: AtomicU32::new(0), depth: AtomicU32::new(0), mask: AtomicU64::new(0) } }; 16];

fn entry_of(who: u32) -> Option<&'static Forker> {
    FORKERS.iter().find(|f| f.who.load(Relaxed) == who)
}

/// Registers the handlers.
pub fn register() {
    os::at_fork(before_fork, after_fork, after_fork_in_child);
}

/// True if thread `me` is in the middle of something: a signal handler asks.
pub fn holds_a_lock(me: u32) -> bool {
    LOCKS.iter().any(|l| l.0.is_held_by(me))
}

/// Whether a deliberate mistake leaves the lock out.
fn is_left_out(lock: &Lock) -> bool {
    is(Mutant::ForkLeavesALock) && core::ptr::eq(lock, &arena::LOCK)
}

extern "C" fn before_fork() {
    let me = os::thread_token();
    if let Some(own) = entry_of(me) {
        own.depth.fetch_add(1, Relaxed);
        return;
    }
    let mask = os::block_signals();
    let free = FORKERS.iter().find(|f| f.who.compare_exchange(0, me, Acquire, Relaxed).is_ok());
    match free {
        Some(own) => own.mask.store(mask, Relaxed),
        None => os::restore_signals(mask), // More threads fork at once than there are entries: without.
    }
    let entangled = holds_a_lock(me);
    for Guarded(lock, _) in LOCKS.iter().filter(|l| !is_left_out(l.0)) {
        if !entangled {
            lock.acquire_for_fork(me);
        } else if !lock.is_held_by(me) {
            lock.try_acquire_for_fork(me);
        }
    }
}

extern "C" fn after_fork() {
    let me = os::thread_token();
    let own = entry_of(me);
    if let Some(own) = own
        && own.depth.load(Relaxed) > 0
    {
        own.depth.fetch_sub(1, Relaxed);
        return;
    }
    for Guarded(lock, _) in LOCKS.iter().rev().filter(|l| l.0.is_held_for_fork(me)) {
        lock.release();
    }
    if let Some(own) = own {
        let mask = own.mask.load(Relaxed);
        own.who.store(0, Release);
        os::restore_signals(mask);
    }
}

extern "C" fn after_fork_in_child() {
    let me = os::thread_token();
    for other in FORKERS.iter().filter(|f| f.who.load(Relaxed) != me) {
        other.depth.store(0, Relaxed);
        other.who.store(0, Relaxed);
    }
    for Guarded(lock, mend) in LOCKS.iter().filter(|l| l.0.is_held_by_other_than(me) && !is_left_out(l.0)) {
        lock.reset();
        mend();
    }
    purge::after_fork();
    whale::after_fork(whale::LOCK.is_held_for_fork(me));
    profile::after_fork();
    heap::counts::reset_all(|class| sparse::returned(class) + profile::returned(class), sparse::given);
    heap::reset_stray_frees();
    sparse::reset_counts();
    large::reset_stray_frees();
    release_heaps(me);
    after_fork();
}

/// The heaps of the threads that are no more become idle, or lost.
fn release_heaps(me: u32) {
    for heap in all_heaps() {
        heap.reset_counts();
        match heap.tenure.with() {
            With::Nobody => {}
            // Also one that was on its way to this thread or from it, when its handler forked.
            With::Thread(who) if who == me => {}
            // This thread will go on with it, when its handler forked; else nobody will.
            With::Tidier => heap.tenure.lose(),
            With::Thread(_) => {
                heap.tenure.lose();
                if heap.after_fork() {
                    put_back(heap);
                }
            }
        }
    }
}

/// The rest of the slot is not used.
fn forget_quarry() {
    // SAFETY: this is the child's only thread, and the lock was another's.
    unsafe { *QUARRY.0.get() = (None, 0) };
}

// Miri has no fork, and models have one of their own.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests;
