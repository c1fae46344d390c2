//! What is done for an allocation that found no memory, before it fails: hakmem purges all free
//! memory, lets the system have what it may count against a limit, and asks the program's
//! callback.
//!
//! Rules
//! 1. The callback runs on the allocating thread, without any lock of hakmem: it may allocate and
//!    free. An allocation of the callback that finds no memory fails without a further callback.
//! 2. It is not called from a signal handler that interrupted the allocator, nor on a thread that
//!    ends, after its heap went back.

use crate::backend::{arena, held};
use crate::base::sync::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};
use crate::thread::{self, ThreadState};
use crate::types::LimitCallback;
use crate::{harden, purge};
use core::ptr::null_mut;

/// The callback as a pointer; null: there is none.
static CALLBACK: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Sets the callback, or none.
pub fn set_callback(callback: Option<LimitCallback>) {
    CALLBACK.store(callback.map_or(null_mut(), |f| f as *mut ()), Release);
}

/// Tries an allocation of `size` bytes again, after a purge, and once more if the callback says so.
#[cold]
#[inline(never)]
pub fn again<T>(size: usize, allocate: impl Fn() -> Option<T>) -> Option<T> {
    held::last_attempt(|| try_again(size, allocate))
}

/// [`again`], which also counts what the hard limit refuses.
fn try_again<T>(size: usize, allocate: impl Fn() -> Option<T>) -> Option<T> {
    give_everything_back();
    let found = allocate().or_else(|| relieve(size).then(&allocate)?);
    found.or_else(|| {
        if !ask(size) {
            return None;
        }
        // What the callback freed may serve blocks of its own size only.
        give_everything_back();
        relieve(size);
        allocate()
    })
}

/// Lets the system have what it may count against a limit, although it is unused: memory that is
/// accessible, and address space. False: there is nothing of that.
fn relieve(size: usize) -> bool {
    // Both: the system may have refused either.
    arena::decommit_after_refusal() | arena::make_room(size)
}

/// Purges all free memory.
fn give_everything_back() {
    thread::give_up_own();
    purge::all();
}

/// Asks the callback. True: it says that the allocation may be tried once more.
fn ask(size: usize) -> bool {
    let callback = CALLBACK.load(Acquire);
    if callback.is_null() || thread::holds_a_lock() {
        return false;
    }
    let ThreadState::Live(heap) = thread::state() else { return false };
    if heap.is_busy() || heap.asks.replace(true) {
        return false;
    }
    // SAFETY: `set_callback` stored a function of this type, and pointers to functions are as long
    // as others.
    let callback = unsafe { core::mem::transmute::<*mut (), LimitCallback>(callback) };
    // The request of the hardened build has its tag.
    let tag = if harden::ON { harden::tag::BYTES } else { 0 };
    let answer = callback(size.saturating_sub(tag));
    heap.asks.set(false);
    answer
}
