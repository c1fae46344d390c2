//! Threads: how each gets its heap, what becomes of it when the thread ends, and fork.
//!
//! A thread adopts an idle heap with all its pages, or has one made. When it ends, the heap goes back to the pool,
//! pages and all, and the thread's word becomes the *dead* heap: what its last destructors free goes the remote way,
//! what they allocate comes from a heap borrowed for the one call.
//!
//! Rules
//! 1. The thread's word is set before anything is called that may itself allocate (`pthread_*`).
//! 2. Locks are taken in the order purge, heaps, profile, sparse, huge, arena, learn. No lock is held while code runs that is
//!    not this crate's: neither the loader nor another allocator is called under one. Of fork see `fork`.

mod fork;
// Miri has no fork, and models have threads of their own.
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
pub use tls::{ThreadState, front, state};

#[unsafe(link_section = ".data.hakmem")]
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
const NO_KEY: os::Key = os::Key::MAX;
const UNINITIALISED: u8 = 0;
const INITIALISING: u8 = 1;
const READY: u8 = 2;
#[unsafe(link_section = ".data.hakmem")]
static PROCESS: AtomicU8 = AtomicU8::new(UNINITIALISED);

/// Runs `f` with the calling thread's heap, which is got if need be. None: no memory for a heap, or `f` says so.
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

/// A heap for one call of a thread that has given its own back.
#[cold]
#[inline(never)]
fn borrow() -> Option<&'static Heap> {
    let heap = pool::adopt()?;
    tls::set_live(heap);
    Some(heap)
}

/// The calling thread's first allocation: it gets a heap for its life.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn settle() -> Option<&'static Heap> {
    let heap = pool::adopt()?;
    tls::set_live(heap); // Rule 1.
    tell_of_the_end(heap, process_key());
    Some(heap)
}

/// Sees to it that the heap of the calling thread is given back when the thread ends: by libc, or else by `reap`. If libc has
/// no memory for the value, the heap is not given back.
#[unsafe(link_section = ".text.hot.hakmem")]
fn tell_of_the_end(heap: &'static Heap, key: Option<os::Key>) {
    match key {
        Some(key) => os::set_exit_value(key, core::ptr::from_ref(heap).cast()),
        None => pool::number(heap.shared()),
    }
}

/// The thread ends: its heap goes back to the pool with everything that is still live in it.
fn abandon(heap: &'static Heap) {
    pool::collect_after_the_end(heap);
    tls::set_dead();
    pool::put_back(heap.shared());
}

/// The key whose destructor gives heaps back; registers it and the fork handlers, if nobody has yet. None: there is none, or
/// another thread is just registering it, which is not waited for.
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
    // What these allocate is served: rule 1, or the thread has no heap yet and gets one. A library that may be unloaded has no
    // key: a thread that is just ending would run the destructor while its code goes.
    let key = if os::may_be_unloaded() { None } else { os::make_exit_key(on_exit) };
    fork::register();
    KEY.store(key.unwrap_or(NO_KEY), Relaxed);
    PROCESS.store(READY, Release);
    if let ThreadState::Live(heap) = tls::state() {
        tell_of_the_end(heap, key);
    }
}

/// The fork handlers must be there before there is a second thread that could use the allocator while the first one
/// forks: in a library that is loaded at run time, before anybody has its address.
pub extern "C" fn on_load() {
    if PROCESS.load(Acquire) == UNINITIALISED {
        initialise();
    }
}

/// What the end of the library does for threads: their keys go, and the scavenger. Heaps of threads that end from now on stay theirs.
///
/// Of a library that is unloaded the free memory and the unused address space are given back; what is live, and the
/// metadata about it, stays. If it is the process that exits, its other threads are served on, from further arenas.
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

/// Gives back what is free, and the address space that was never used.
fn give_all_up() {
    if holds_a_lock() {
        return;
    }
    if let ThreadState::Live(heap) = tls::state()
        && !heap.is_busy()
    {
        heap.collect();
    }
    purge::all();
    arena::give_tails_up();
}

unsafe extern "C" fn on_exit(heap: *mut c_void) {
    if let ThreadState::Live(own) = tls::state()
        && core::ptr::eq(own, heap.cast())
    {
        abandon(own);
        purge::ended();
    }
}

/// True if the calling thread holds one of the locks: a signal handler has interrupted it there.
pub fn holds_a_lock() -> bool {
    fork::holds_a_lock(os::thread_token())
}
