//! Threads: how a thread gets its heap, what happens to the heap when the thread ends, and fork.
//!
//! At its first allocation a thread adopts an idle heap with all its pages, or makes a heap. When
//! the thread ends, it puts the heap with all pages back into the pool, and sets its word to the
//! *dead* heap. If a later destructor of the thread frees a block, the free is a remote one. If it
//! allocates, it borrows a heap for this one call.
//!
//! Rules
//! 1. A thread sets its word before it calls functions that may allocate themselves (`pthread_*`).
//! 2. Locks are taken in this order: `purge`, `pool::REAPING`, `region`, `profile`, `parked`,
//!    `huge`, `arena`, `learner`. That of a program heap comes before all of them, and never meets
//!    `profile`'s (`profile::kept` rule 1). A thread takes `fence`'s alone, and does not wait for
//!    it. No lock is held while code outside this crate runs, but for the system call that sets a
//!    limit of address space (`arena::fit_limit`): no call of the loader or of another allocator is
//!    under a lock. For fork see `fork`.
//! 3. A thread's word leads to a heap only while the thread holds the heap: `adopt` comes before
//!    `set_live`, and `set_dead` before `put_back`. In the child of a fork `part` comes before the
//!    heap is lost.
//! 4. A thread that is in a scope of a program heap has a heap, too. `state` finds it behind the
//!    scope, so all but allocation goes on as without one.

mod fork;
pub mod scope;
// Miri has no fork, and models have their own threads.
#[cfg(all(test, not(any(miri, shuttle))))]
mod tests;
mod tls;

use crate::backend::arena;
use crate::base::sync::{
    AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::heap::{Heap, pool};
use crate::{os, purge};
use core::ffi::c_void;
#[cfg(shuttle)]
pub use tls::forget_all;
pub use tls::{ThreadState, front, heap, own_front, state, state_in_scope};

#[unsafe(link_section = ".data.hakmem")]
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
const NO_KEY: os::Key = os::Key::MAX;
const UNINITIALISED: u8 = 0;
const INITIALISING: u8 = 1;
const READY: u8 = 2;
#[unsafe(link_section = ".data.hakmem")]
static PROCESS: AtomicU8 = AtomicU8::new(UNINITIALISED);

/// Runs `f` with the calling thread's heap. A thread without a heap gets one first. None: there is
/// no memory for a heap, or `f` returned None. What `f` returns has no reference to the heap, which
/// may be borrowed for this call.
#[inline(always)]
pub fn with_heap<R>(f: impl FnOnce(&'static Heap) -> Option<R>) -> Option<R> {
    let (heap, borrowed) = match tls::state() {
        ThreadState::Live(heap) => (heap, false),
        ThreadState::Empty => (settle()?, false),
        ThreadState::Dead => (borrow()?, true),
    };
    let result = f(heap);
    if borrowed {
        abandon(heap);
    }
    result
}

/// Notes the calling thread's number in its heap, if it has one: see `SharedHeap::note_number`.
pub fn note_number() {
    if let Some(heap) = heap() {
        heap.shared().note_number();
    }
}

/// Adopts a heap for one call of a thread that has already put its heap back.
#[cold]
#[inline(never)]
fn borrow() -> Option<&'static Heap> {
    let heap = pool::adopt()?;
    // SAFETY: `adopt` made this thread the holder. `abandon` sets the word before it gives the heap
    // up.
    unsafe { tls::set_live(heap) };
    Some(heap)
}

/// Adopts a heap for the calling thread's life, at its first allocation.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn settle() -> Option<&'static Heap> {
    let heap = pool::adopt()?;
    // SAFETY: `adopt` made this thread the holder. Rule 1: the word comes first.
    unsafe { tls::set_live(heap) };
    arrange_return(heap, process_key());
    Some(heap)
}

/// Arranges that the heap goes back when the calling thread ends: by a destructor of libc, or else
/// by `reap`. If libc has no memory for the destructor's value, the heap never goes back.
#[unsafe(link_section = ".text.hot.hakmem")]
fn arrange_return(heap: &'static Heap, key: Option<os::Key>) {
    match key {
        Some(key) => {
            // It may have a number from before the key was made.
            heap.shared().thread().store(0, Relaxed);
            os::set_exit_value(key, core::ptr::from_ref(heap).cast());
        }
        None => pool::number(heap.shared()),
    }
}

/// Takes the heap away from the calling thread, in the child of a fork. The thread adopts another
/// one at its next allocation. In a scope it needs a heap at any time, so it adopts one here.
/// False: there is no memory for one, and the thread keeps the heap that it has.
fn part() -> bool {
    let Err(scope) = tls::state_in_scope() else {
        tls::set_empty();
        return true;
    };
    let Some(heap) = pool::adopt() else { return false };
    // SAFETY: `adopt` made this thread the holder.
    unsafe { tls::set_behind(scope, heap) };
    arrange_return(heap, process_key());
    true
}

/// Puts the heap back into the pool, with all live blocks in it, because the thread ends.
fn abandon(heap: &'static Heap) {
    pool::collect_after_the_end(heap);
    tls::set_dead();
    // SAFETY: the calling thread holds the heap, as its word says until now. The word has become
    // the dead heap, so the thread does not use the heap again.
    unsafe { pool::put_back(heap.shared()) };
}

/// The key whose destructor puts heaps back. The first call makes the key and registers the fork
/// handlers. None: there is no key, or another thread is making it at this moment. The caller does
/// not wait for that thread.
#[unsafe(link_section = ".text.hot.hakmem")]
fn process_key() -> Option<os::Key> {
    if PROCESS.load(Acquire) != READY {
        initialise();
    }
    let key = KEY.load(Relaxed);
    (key != NO_KEY).then_some(key)
}

#[cold]
#[unsafe(link_section = ".text.hot.hakmem")]
fn initialise() {
    if PROCESS.compare_exchange(UNINITIALISED, INITIALISING, Acquire, Relaxed).is_err() {
        return;
    }
    // These functions may allocate. Then the thread has a heap already (rule 1), or gets one. A
    // library that may be unloaded makes no key: a thread that ends at that moment would run a
    // destructor whose code is gone.
    let key = if os::may_be_unloaded() { None } else { os::make_exit_key(on_exit) };
    fork::register();
    KEY.store(key.unwrap_or(NO_KEY), Relaxed);
    PROCESS.store(READY, Release);
    if let ThreadState::Live(heap) = tls::state() {
        arrange_return(heap, key);
    }
}

/// Initialises the process when the library is loaded. The fork handlers must be registered before
/// a second thread can use the allocator while the first one forks. In a library that is loaded at
/// run time, this is before any code has its address.
pub extern "C" fn on_load() {
    if PROCESS.load(Acquire) == UNINITIALISED {
        initialise();
    }
}

/// Ends what the library does for threads: deletes the key, and ends the scavenger. A thread that
/// ends later keeps its heap.
///
/// If the library is unloaded, it also gives back the free memory and the unused address space.
/// Live blocks and their metadata stay. If the process exits, its other threads can still allocate,
/// from further arenas.
#[inline]
pub fn stop() {
    if PROCESS.load(Acquire) != READY {
        return;
    }
    let key = KEY.swap(NO_KEY, Relaxed);
    if key != NO_KEY {
        os::drop_exit_key(key);
    }
    purge::stop(holds_a_lock());
    if os::may_be_unloaded() {
        give_all_up();
    }
}

/// Gives back the free memory, and the address space that was never used.
fn give_all_up() {
    if holds_a_lock() {
        return;
    }
    give_up_own();
    purge::all();
    arena::give_tails_up();
}

/// Gives up what is free in the calling thread's heap, unless a signal handler interrupted a change
/// of it.
pub fn give_up_own() {
    if let ThreadState::Live(heap) = tls::state()
        && !heap.is_busy()
    {
        heap.collect();
    }
}

#[unsafe(link_section = ".text.hot.hakmem")]
unsafe extern "C" fn on_exit(heap: *mut c_void) {
    if let ThreadState::Live(own) = tls::state()
        && core::ptr::eq(own, heap.cast())
    {
        scope::leave_all();
        abandon(own);
        purge::ended();
    }
}

/// True if the calling thread holds a lock: its signal handler interrupted the allocator.
pub fn holds_a_lock() -> bool {
    fork::holds_a_lock(os::thread_token())
}
