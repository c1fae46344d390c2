//! Entering and leaving a scope of a program heap: the thread's word changes for that time
//! (`program::scope`).
//!
//! Rules
//! 1. Scopes end in the reverse order. `leave` refuses any other. `leave_any` is for Rust's guards:
//!    two coroutines of a thread may end theirs in the order in which they began.
//! 2. A thread that has put its heap back enters no scope. Its last destructors may borrow a heap
//!    for a call, and that would lose the scope.
//! 3. A thread that ends in a scope leaves it first.

use super::{ThreadState, tls, with_heap};
use crate::program::scope::Scope;
use crate::program::{ProgramHeap, Refusal};

/// Enters a scope of the heap. An error: nothing was done.
pub fn enter(heap: &'static ProgramHeap) -> Result<(), Refusal> {
    with_heap(|_| Some(())).ok_or(Refusal::Memory)?;
    if matches!(tls::state(), ThreadState::Dead) {
        return Err(Refusal::Busy);
    }
    let scope = heap.enter(tls::front())?;
    // SAFETY: `enter` set `outer` to the thread's word, and the thread has a heap.
    unsafe { tls::set_scope(&raw const scope.front) };
    Ok(())
}

/// Leaves the scope that the thread entered last, if it is one of the heap. False: it is not.
pub fn leave(heap: &'static ProgramHeap) -> bool {
    let Err(scope) = tls::state_in_scope() else { return false };
    if !core::ptr::eq(scope.heap(), heap) {
        return false;
    }
    leave_one(scope);
    true
}

/// Leaves the scope of the heap that the thread entered last. It stays in those of other heaps that
/// it entered since. Nothing is done if it is in none: another thread entered the scope, and stays
/// in it. O(scopes).
pub fn leave_any(heap: &'static ProgramHeap) {
    if leave(heap) {
        return;
    }
    let mut inner = tls::state_in_scope().err();
    while let Some(within) = inner {
        inner = within.outer_scope();
        if let Some(scope) = inner
            && core::ptr::eq(scope.heap(), heap)
        {
            // In one step: what interrupts the thread finds it in this scope, or outside of it.
            within.outer.set(scope.outer.get());
            return heap.leave(scope);
        }
    }
}

/// How many scopes of the heap the thread is in.
pub fn entered(heap: &ProgramHeap) -> u32 {
    let (mut count, mut inner) = (0, tls::state_in_scope().err());
    while let Some(scope) = inner {
        count += u32::from(core::ptr::eq(scope.heap(), heap));
        inner = scope.outer_scope();
    }
    count
}

/// Leaves all scopes that the thread is in.
pub fn leave_all() {
    while let Err(scope) = tls::state_in_scope() {
        leave_one(scope);
    }
}

/// Leaves the thread's innermost scope. The word changes first: what interrupts the rest finds the
/// thread outside.
fn leave_one(scope: &'static Scope) {
    // SAFETY: the word leads to this scope.
    unsafe { tls::set_scope(scope.outer.get()) };
    scope.heap().leave(scope);
}
