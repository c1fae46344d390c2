//! fork: the child can use the allocator, whatever the other threads were doing at the fork.
//!
//! No lock that a thread waits for without a limit is held across fork. A thread that waits may
//! hold a lock of the C library, such as that of a stream. fork takes this lock after our handler,
//! so the two threads would wait for each other. So the handler makes the long work under locks, a
//! pass of the purge, end soon or not begin. It holds only the profile's lock across fork, so that
//! the child has consistent counts. Meanwhile other threads wait for this lock for a moment only,
//! and go on without a sample. If there was a scavenger, which ends at a fork, the handler first
//! gives back all free memory itself, but only while no lock is held.
//!
//! The child has only the thread that forked. It resets each lock that another thread held. It
//! repairs or gives up the data that such a lock guards, where it may be half written. Heaps of
//! other threads go to the pool, unless the fork interrupted a change of theirs. Such a heap is
//! lost: its blocks can still be freed, but no thread allocates from it again. The heap of the
//! thread that forked is lost, too, if a purge of another thread had it paused: the purge may have
//! half moved its pages, and has the remote frees that waited for it. The thread gets another heap.
//!
//! The memory of the child is what each thread had written up to some one moment of its own. The
//! kernel stops a thread at its first write to memory that is already copied. So the moment of a
//! thread that saw a write of another thread is later than that write.
//!
//! Rules
//! 1. In the child, a lock that another thread held is *broken*: that thread does not exist. The
//!    handler repairs the guarded data before any code reads it.
//! 2. If a signal handler forks and its thread held a lock, the thread still holds it in the child.
//!    When the handler returns, the thread goes on with the guarded data.
//! 3. The handlers wait for no thread without a limit. One gap is left: a thread may take a lock
//!    after `give_back` looked at it, and be stopped while it has it. Then the fork waits for it.

use super::{ThreadState, scope, tls};
use crate::backend::{arena, foreign, nodes};
use crate::base::sync::Ordering::Relaxed;
use crate::harden::{self, fence};
use crate::heap::all::all_heaps;
use crate::heap::counts::GivenUp;
use crate::heap::pool::{self, number, put_back, put_back_if_popped};
use crate::heap::reclaim::parked;
use crate::heap::region;
use crate::heap::shared::SharedHeap;
use crate::large::huge;
use crate::policy::learner;
use crate::program::registry;
use crate::proto::heap_state::With;
use crate::proto::lock::Lock;
use crate::{guard, heap, large, os, profile, purge};

/// A lock, and the function that repairs the guarded data in the child if the lock is broken. The
/// caller of the function promises that no thread uses these data meanwhile.
struct Guarded(&'static Lock, unsafe fn());

/// All locks but those of program heaps (`registry::after_fork`) and of the parts of the huge cache
/// that further nodes of memory have, in the order in which threads take them.
static LOCKS: [Guarded; 9] = [
    // It only keeps two passes apart. The next one sees to the page that was out (`parked::purge`).
    Guarded(&purge::LOCK, || ()),
    Guarded(&pool::REAPING, || ()), // `release_heaps` sees to the heap that was just taken over.
    Guarded(&region::LOCK, region::forget),
    Guarded(&profile::LOCK, profile::give_up),
    Guarded(&parked::LOCK, parked::give_up_all),
    Guarded(&huge::LOCK, || huge::forget_part(0)),
    Guarded(&arena::LOCK, || ()), // Each bit by itself is right at any time.
    Guarded(&learner::LOCK, learner::forget),
    Guarded(&fence::LOCK, || ()), // Each entry of the table is right at any time.
];

/// Registers the fork handlers.
pub fn register() {
    os::at_fork(before_fork, after_fork, after_fork_in_child);
}

/// True if thread `me` holds a lock, that of a program heap aside. Called from signal handlers.
pub fn holds_a_lock(me: u32) -> bool {
    LOCKS.iter().any(|l| l.0.is_held_by(me)) || nodes::are_several() && holds_a_further_lock(me)
}

/// True if thread `me` holds the lock of a further node's part of the huge cache.
#[cold]
#[inline(never)]
fn holds_a_further_lock(me: u32) -> bool {
    huge::further_locks().any(|l| l.is_held_by(me))
}

extern "C" fn before_fork() {
    let me = os::thread_token();
    let is_busy = matches!(tls::state(), ThreadState::Live(heap) if heap.is_busy());
    let in_the_middle = is_busy || holds_a_lock(me);
    let was_there = purge::stand_aside(in_the_middle);
    if was_there && !in_the_middle {
        give_back(me);
    }
    profile::before_fork();
}

/// Gives back what is free, as the scavenger has ended and the program may sleep from now on.
///
/// Not if another thread holds a lock and keeps it: it may be stopped, or not be of this process
/// (rule 3). Not while an error is reported, of which the pass might come across the traces.
#[cold]
#[inline(never)]
fn give_back(me: u32) {
    const MOMENTS: u32 = 100;
    let locks = || LOCKS.iter().map(|guarded| guarded.0).chain(huge::further_locks());
    let are_free = || !locks().any(|lock| lock.is_held_by_other_than(me));
    let are_free_soon = || {
        (0..MOMENTS).any(|_| {
            are_free() || {
                os::sleep_us(200);
                false
            }
        })
    };
    if os::is_ending() || os::in_borrowed_process() || !are_free_soon() {
        return;
    }
    // A handler of a signal may need a lock that the pass has.
    let mask = os::block_signals();
    purge::before_fork();
    os::restore_signals(mask);
}

extern "C" fn after_fork() {
    profile::release_after_fork();
    purge::stand_back();
}

extern "C" fn after_fork_in_child() {
    let me = os::thread_token();
    // Locks come first: all that follows may take one (rule 1). `before_fork` took the profile's.
    profile::release_after_fork();
    for Guarded(lock, repair) in LOCKS.iter().filter(|l| l.0.is_held_by_other_than(me)) {
        lock.reset();
        // SAFETY: this is the child, whose only thread does not hold the lock.
        unsafe { repair() };
    }
    for (i, lock) in huge::further_locks().enumerate().filter(|l| l.1.is_held_by_other_than(me)) {
        lock.reset();
        huge::forget_part(1 + i);
    }
    foreign::after_fork(me);
    // What these knew of threads that are not there.
    if harden::ON {
        harden::after_fork();
    }
    purge::after_fork();
    // Each heap counts the huge blocks that it keeps before the cache adds them up.
    let others = all_heaps().filter(|heap| !is_own(heap));
    others.for_each(|heap| heap.huge().recount());
    huge::after_fork(all_heaps().map(|heap| heap.huge().allowed.load(Relaxed)).sum());
    profile::after_fork();
    guard::after_fork();
    registry::after_fork(me, scope::entered);
    // The counts that heaps share begin anew before those of each heap. They take over what
    // `parked` has given up, so the counts of `parked` come after them.
    heap::counts::reset_all(|class| GivenUp {
        blocks: parked::returned(class) + profile::returned(class),
        pages: parked::given(class),
        full: parked::whole(class),
    });
    heap::reset_heapless_frees();
    parked::reset_counts();
    large::reset_heapless_frees();
    // Heaps come last: a thread that the child starts may adopt them.
    release_heaps(me);
}

/// Makes the heaps of the threads that the child does not have idle, or lost.
fn release_heaps(me: u32) {
    // A filter may end the process for the call.
    let random = (harden::ON && !os::is_filtered()).then(|| os::random()[0]);
    let mut own_lost = None;
    for heap in all_heaps() {
        // SAFETY: the child has one thread, so no other thread uses the heap. A heap whose change
        // the fork interrupted becomes lost below.
        let own = unsafe { heap.holder() };
        own.reset_counts();
        if let Some(random) = random {
            own.quarantine.draw(random);
        }
        let paused = heap.pause().end_in_child();
        match heap.state().with() {
            // Its thread gave it up while a purge had it.
            With::Nobody if paused => heap.state().lose(),
            With::Nobody => {}
            // A purge leaves a heap alone whose holder is inside (`proto::pause` rule 2). But for a
            // signal handler that forks while this thread enters or waits: it keeps the heap, or
            // goes on in it, as a handler always did.
            With::Thread(who) if who == me && is_own(heap) && paused && !heap.is_busy() => {
                own_lost = Some(heap);
            }
            With::Thread(who) if who == me && is_own(heap) => keep(heap),
            // Its signal handler forked while this thread adopted the heap or put it back. A heap
            // with numbers is another one's below: a thread that ended had the same token.
            With::Thread(who) if who == me && heap.thread().load(Relaxed) == 0 => {
                heap.note_number()
            }
            // The handler interrupted this thread while it tidied the heap. It goes on when the
            // handler returns.
            With::Tidier(who) if who == me => {}
            With::Tidier(who) => {
                let in_order = !heap.is_busy() && !paused;
                let tidied = heap.state().let_go(who);
                if in_order {
                    put_back_if_popped(heap, tidied);
                } else {
                    heap.state().lose();
                }
            }
            With::Thread(_) => {
                heap.thread().store(0, Relaxed);
                if own.after_fork() && !paused {
                    // SAFETY: the thread that held the heap is not in the child. The child's only
                    // thread holds it until here, and not any more.
                    unsafe { put_back(heap) };
                } else {
                    heap.state().lose();
                }
            }
        }
    }
    // The pool is in order again, in which this thread may look for another heap.
    if let Some(heap) = own_lost {
        lose_own(heap);
    }
}

/// This thread keeps its heap. In the child it has other numbers.
fn keep(heap: &SharedHeap) {
    heap.note_number();
    if heap.thread().load(Relaxed) != 0 {
        number(heap);
    }
}

/// Loses the heap of this thread, which a purge had paused. The thread was in none of its slow
/// paths, and gets another heap.
#[cold]
fn lose_own(heap: &'static SharedHeap) {
    if !super::part() {
        return keep(heap);
    }
    heap.thread().store(0, Relaxed);
    // SAFETY: the child has one thread, and its word leads to the heap no more.
    unsafe { heap.holder() }.after_fork();
    heap.state().lose();
}

/// True if the calling thread's word leads to the heap.
fn is_own(heap: &SharedHeap) -> bool {
    matches!(tls::state(), ThreadState::Live(own) if core::ptr::eq(own.shared(), heap))
}

// Miri has no fork, and models have their own fork.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests;
