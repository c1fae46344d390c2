//! fork: what the child gets is usable, whatever the other threads were about.
//!
//! No lock is held across fork that a thread waits for without a limit. Such a thread may hold a lock of the C library's, a
//! stream's say, which fork takes after our handler: each would wait for the other. So the handler has the long piece of work
//! under locks, a pass of the purge, end soon or not begin. It takes the profile's lock alone, so that the child has whole books:
//! meanwhile others wait for that for a moment only, and go on without a sample.
//!
//! In the child the forking thread is alone. A lock that another thread held is reset, and what it guards is mended or given up,
//! as far as it may be half written. Other threads' heaps go to the pool, but for those that were caught in the middle of a
//! change. These are lost: their blocks can still be freed, but nothing is ever allocated from them.
//!
//! The child's memory is what each thread had written up to some one moment of its own: the kernel stops a thread at its
//! first write to what it has copied already, and whoever saw a write of another thread comes after it.
//!
//! Rules
//! 1. A lock that says in the child that another thread holds it is *torn*: that thread is not there. What it guards is
//!    brought into order before anybody looks at it.
//! 2. A lock of the forking thread, whose signal handler forks, is its own in the child, too: it goes on with what it guards
//!    when the handler returns.
//! 3. The handlers wait for nobody without a limit.

use super::{ThreadState, tls};
use crate::backend::{arena, foreign};
use crate::base::sync::Ordering::Relaxed;
use crate::heap::all::all_heaps;
use crate::heap::parked;
use crate::heap::pool::{number, put_back, put_back_if_popped};
use crate::heap::region;
use crate::large::huge;
use crate::policy::learn;
use crate::proto::heap_state::With;
use crate::proto::lock::Lock;
use crate::{heap, large, os, profile, purge};

/// A lock, and what puts right in the child what it guards, should it be torn.
struct Guarded(&'static Lock, fn());

/// Every lock, in the order they are taken in.
static LOCKS: [Guarded; 7] = [
    Guarded(&purge::LOCK, || ()), // It only keeps passes apart.
    Guarded(&region::LOCK, region::forget),
    Guarded(&profile::LOCK, profile::give_up),
    Guarded(&parked::LOCK, parked::give_up_all),
    Guarded(&huge::LOCK, huge::forget_cache),
    Guarded(&arena::LOCK, || ()), // Each bit by itself is true at any time.
    Guarded(&learn::LOCK, learn::forget),
];

/// Registers the handlers.
pub fn register() {
    os::at_fork(before_fork, after_fork, after_fork_in_child);
}

/// True if thread `me` is in the middle of something: a signal handler asks.
pub fn holds_a_lock(me: u32) -> bool {
    LOCKS.iter().any(|l| l.0.is_held_by(me))
}

extern "C" fn before_fork() {
    purge::stand_aside(holds_a_lock(os::thread_token()));
    profile::before_fork();
}

extern "C" fn after_fork() {
    profile::release_after_fork();
    purge::stand_back();
}

extern "C" fn after_fork_in_child() {
    let me = os::thread_token();
    profile::release_after_fork();
    for Guarded(lock, mend) in LOCKS.iter().filter(|l| l.0.is_held_by_other_than(me)) {
        lock.reset();
        mend();
    }
    foreign::after_fork(me);
    purge::after_fork();
    huge::after_fork();
    profile::after_fork();
    heap::counts::reset_all(|class| parked::returned(class) + profile::returned(class), parked::given);
    heap::reset_stray_frees();
    parked::reset_counts();
    large::reset_stray_frees();
    release_heaps(me);
}

/// The heaps of the threads that are no more become idle, or lost.
fn release_heaps(me: u32) {
    for heap in all_heaps() {
        // SAFETY: the child has this thread alone. One of another thread's that was copied in the middle of a change is `lost`.
        let own = unsafe { heap.holder() };
        own.reset_counts();
        match heap.state().with() {
            With::Nobody => {}
            // Also one that was on its way to this thread or from it, when its handler forked; and one whose thread ended
            // without telling, and had the token before.
            With::Thread(who) if who == me => {
                let is_own = matches!(tls::state(), ThreadState::Live(own) if core::ptr::eq(own.shared(), heap));
                if is_own && heap.thread().load(Relaxed) != 0 {
                    number(heap); // This thread has another number now.
                }
            }
            // This thread goes on with it, when its handler returns.
            With::Tidier(who) if who == me => {}
            With::Tidier(who) => {
                let in_order = !heap.is_busy();
                let tidied = heap.state().let_go(who);
                if in_order {
                    put_back_if_popped(heap, tidied);
                } else {
                    heap.state().lose();
                }
            }
            With::Thread(_) => {
                heap.state().lose();
                heap.thread().store(0, Relaxed);
                if own.after_fork() {
                    put_back(heap);
                }
            }
        }
    }
}

// Miri has no fork, and models have one of their own.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests;
