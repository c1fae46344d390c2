//! Allocation: a request gets a block of a class, whole slots, or whole segments, by its size.
//!
//! ```text
//! fast.rs:
//! alloc16 ──┬── pop                               the heap's list has a block
//!           ├── alloc16_slow ─────── from_class   the list is empty, ends, or looks wrong
//!           └── alloc16_unlisted ─┬─ from_class   up to 64 KiB
//!                                 └─ alloc_big    large and huge blocks
//!
//! big.rs:
//! alloc_big ── from_cache_or_new ─┬─              the heap's cache has a large block
//!                                 └─ new_whole    whole slots or segments
//!
//! scoped.rs:
//! from_class, alloc_big ─── in a scope: the program heap
//! ```
//!
//! Rules
//! 1. A function here returns null with errno ENOMEM, or none, if there is no memory even after a
//!    purge of everything free and the program's callback (`refused`).
//! 2. A block that is known to be zero is not cleared again.

mod big;
mod fast;
mod scoped;
mod zeroed;

use super::{note_released, refused};
use crate::backend::nothing;
use crate::base::size_class::{self, SIZES};
use crate::heap::{Found, Heap};
use crate::os;
use crate::thread::{self, ThreadState};
use core::ptr::null_mut;

pub use big::{alloc_big, kept_huge, node, pop_large, sample_whole};
pub use fast::{
    alloc_class, alloc_class_or, alloc_class_slow, alloc16, alloc16_or, alloc16_unlisted, pop_kept,
    pop16,
};
use scoped::from_scope;
pub use scoped::{alloc_of, keep_limit_of, sample_of};
pub use zeroed::{alloc16_zeroed, zeroed_class};

/// Which bytes of a new block must be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clear {
    Nothing,
    /// The bytes that the caller requested. A Rust program knows this size only, and uses no more.
    Request,
    /// All bytes of the block: a C program may ask for the usable size and use all of it.
    Block,
}

/// Bytes of a block of `class`.
fn size_of(class: usize) -> usize {
    SIZES[class] as usize
}

/// A block of 0 bytes, or of one if there is no such block.
#[cold]
#[inline(never)]
pub fn alloc_nothing() -> *mut u8 {
    nothing::alloc().unwrap_or_else(|| finish(from_class(size_class::of16(1), 1)))
}

/// Pops a block from the class's list, or refills the list. `request` is at most the size of the
/// class: a sampled block has no more bytes. None: there is no memory, even after a purge of
/// everything free and the program's callback.
#[inline(always)]
fn from_class(class: usize, request: usize) -> Option<Found> {
    let got = match thread::state_in_scope() {
        Ok(ThreadState::Live(heap)) => from_heap(heap, class, request),
        Ok(ThreadState::Empty | ThreadState::Dead) => from_new_heap(class, request),
        Err(scope) => return from_scope(scope, class, request),
    };
    match got {
        // Without the request, which would have to be kept until here.
        None => from_class_after_purge(class),
        got => got,
    }
}

#[inline(always)]
fn from_heap(heap: &Heap, class: usize, request: usize) -> Option<Found> {
    // SAFETY: classes are below CLASSES, the length of the array.
    let list = unsafe { heap.owner.front.lists.get_unchecked(class) };
    if !list.free.get().is_null() {
        // The fast path leaves this block to be looked at, or a sample is due in its place.
        let sample = if fast::is_sampled() { heap.sample_instead(class, request) } else { None };
        return sample.or_else(|| heap.take_listed(class).map(|block| (block, false)));
    }
    let fresh = heap.refill(class, request);
    if heap.has_released() {
        note_released(heap);
    }
    fresh
}

#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn from_new_heap(class: usize, request: usize) -> Option<Found> {
    thread::with_heap(|heap| from_that_heap(heap, class, request))
}

/// [`from_heap`] as a function: the code of a closure would lie apart.
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn from_that_heap(heap: &Heap, class: usize, request: usize) -> Option<Found> {
    from_heap(heap, class, request)
}

#[cold]
#[inline(never)]
fn from_class_after_purge(class: usize) -> Option<Found> {
    refused::again(size_of(class), || thread::with_heap(|heap| heap.refill(class, size_of(class))))
}

fn finish(fresh: Option<Found>) -> *mut u8 {
    match fresh {
        Some((block, _)) => block.as_ptr().cast(),
        None => no_memory(),
    }
}

#[cold]
fn no_memory() -> *mut u8 {
    os::set_enomem();
    null_mut()
}

/// Allocates a block for `n` bytes at a multiple of `align`, a power of two above 16. O(1).
#[cold]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn alloc_aligned(n: usize, align: usize, clear: Clear) -> *mut u8 {
    if let Clear::Nothing = clear
        && let Some(class) = size_class::of_aligned_small(n, align)
        && let Some(p) = fast::pop(class)
    {
        return p;
    }
    alloc_aligned_slow(n, align, clear)
}

/// [`alloc_aligned`] when the list is empty, or the request is not small.
#[cold]
#[inline(never)]
fn alloc_aligned_slow(n: usize, align: usize, clear: Clear) -> *mut u8 {
    match (size_class::of_aligned(n, align), clear) {
        (Some(class), Clear::Nothing) => finish(from_class(class, size_of(class))),
        // SAFETY: `of_aligned` gives a class of at least `n` bytes.
        (Some(class), Clear::Request) => unsafe { zeroed_class(class, n) },
        // SAFETY: it is the size of the class.
        (Some(class), Clear::Block) => unsafe { zeroed_class(class, size_of(class)) },
        (None, clear) => alloc_big(n, align, clear),
    }
}
