//! Blocks of program heaps, for two kinds of requests: the ordinary ones of a thread in a scope,
//! and calls that name a heap.
//!
//! Rules
//! 1. The purge and the callback of `refused` run without the lock of the program heap. So the soft
//!    limit is kept behind the call that took memory for the heap.
//! 2. The heap refuses what its own limit forbids. No purge is tried for that.

use super::{Clear, no_memory, size_of};
use crate::api::front::{keep_limit, refused};
use crate::heap::{Found, peak};
use crate::large::huge;
use crate::program::scope::Scope;
use crate::program::{self, Made, ProgramHeap, Refusal, Way};
use crate::{guard, profile, purge, thread};
use core::ptr::NonNull;

/// Takes a block of `class` from the program heap whose scope the thread is in.
#[cold]
#[inline(never)]
pub(super) fn from_scope(scope: &Scope, class: usize, request: usize) -> Option<Found> {
    if guard::is_on()
        && let Some(block) = scope.alloc_guarded(class, request)
    {
        return Some((block, true));
    }
    let made = or_again(size_of(class), || {
        if profile::is_on() { from_scope_sampled(scope, class) } else { scope.alloc(class) }
    });
    made.inspect(|_| keep_limit_of(scope.heap())).ok()
}

/// Keeps the soft limit, if the heap took memory beyond it (`program` rule 3). Not behind a request
/// that failed: a signal handler's thread may have a lock then.
#[inline(always)]
pub fn keep_limit_of(heap: &ProgramHeap) {
    if heap.take_released() {
        keep_limit_now();
    }
}

#[cold]
#[inline(never)]
fn keep_limit_now() {
    keep_limit();
    purge::tick();
}

/// [`Scope::alloc`] while the profile is on.
#[cold]
#[inline(never)]
fn from_scope_sampled(scope: &Scope, class: usize) -> Result<Found, Refusal> {
    thread::with_heap(|own| Some(scope.alloc_sampled(own, class)))
        .unwrap_or_else(|| scope.alloc(class))
}

/// [`alloc_big`] in a scope of a program heap.
#[cold]
#[inline(never)]
pub(super) fn big_from_scope(scope: &Scope, n: usize, align: usize, clear: Clear) -> *mut u8 {
    let made = alloc_of(scope.heap(), Way::Routed, n, align, None);
    let Ok((block, zero)) = made else { return no_memory() };
    if clear != Clear::Nothing && !zero {
        // SAFETY: the block was just allocated for `n` bytes.
        unsafe { program::clear(block, n, clear == Clear::Block) };
    }
    block.as_ptr()
}

/// Allocates from a program heap: see [`ProgramHeap::alloc`]. Purges all free memory first if the
/// system has none.
#[inline]
pub fn alloc_of(
    heap: &'static ProgramHeap,
    way: Way,
    n: usize,
    align: usize,
    class: Option<usize>,
) -> Made {
    if let Some(class) = class
        && !guard::is_on()
        && !profile::is_on()
    {
        match heap.alloc_class(way, class) {
            Err(Refusal::Memory) => {}
            Ok(block) => {
                keep_limit_of(heap);
                return Ok(block);
            }
            Err(why) => return Err(why),
        }
    }
    alloc_of_rare(heap, way, n, align, class)
}

/// [`alloc_of`] of a block that may become a sample, of one without a class, and of one that there
/// was no memory for.
#[inline(never)]
fn alloc_of_rare(
    heap: &'static ProgramHeap,
    way: Way,
    n: usize,
    align: usize,
    class: Option<usize>,
) -> Made {
    if guard::is_on()
        && let Some(class) = class
    {
        // Such a request keeps the alignment of its class.
        let request = if align > 16 { size_of(class) } else { n };
        if let Some(block) = heap.alloc_guarded(way, class, request) {
            return Ok((block, true));
        }
    }
    if n > huge::TOO_LARGE || align > huge::TOO_LARGE {
        return Err(Refusal::Memory); // No purge would help.
    }
    let made = or_again(n, || heap.alloc(way, n, align, class))?;
    keep_limit_of(heap);
    if class.is_none() {
        peak::follow();
    }
    if profile::is_on() {
        sample_of(heap, way, made.0);
    }
    Ok(made)
}

/// Samples a block of a program heap that was just allocated, if a sample is due.
#[cold]
#[inline(never)]
pub fn sample_of(heap: &'static ProgramHeap, way: Way, block: NonNull<u8>) {
    thread::with_heap(|own| {
        heap.sample(own, way, block);
        Some(())
    });
}

/// Allocates `n` bytes from a program heap by `allocate`, and again after a purge if the system has
/// no memory.
fn or_again<T>(n: usize, allocate: impl Fn() -> Result<T, Refusal>) -> Result<T, Refusal> {
    match allocate() {
        // The limit of the heap may forbid it the second time: that fails, too.
        Err(Refusal::Memory) => refused::again(n, || allocate().ok()).ok_or(Refusal::Memory),
        made => made,
    }
}
