//! Blocks with a class that are zero, for calloc and its like.
//!
//! Rules
//! 1. Memory that is known to be zero is not cleared again (`alloc` rule 2). Of a block on a list
//!    nothing is known.

use super::fast::{pop, pop16};
use super::{Clear, alloc_big, from_class, no_memory, size_of};
use crate::backend::arena::SLOT;
use crate::backend::nothing;
use crate::base::size_class::{self, CLASSES, FIRST_LONG, MEDIUM_MAX};
use core::hint::assert_unchecked;

/// Allocates a block for `n` bytes, aligned to 16. All bytes of the block are zero. Returns null
/// with errno ENOMEM if there is no memory. O(n).
#[inline(always)]
pub fn alloc16_zeroed(n: usize) -> *mut u8 {
    let Some((p, class)) = pop16(n) else { return alloc16_zeroed_slow(n) };
    // SAFETY: the class of a list is below CLASSES. The block was on the list of its class, and is
    // this call's now.
    unsafe {
        assert_unchecked(class < CLASSES);
        p.write_bytes(0, size_of(class));
    }
    p
}

/// [`alloc16_zeroed`] when the list is empty, or the request is not small.
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn alloc16_zeroed_slow(n: usize) -> *mut u8 {
    if n == 0
        && let Some(p) = nothing::alloc()
    {
        return p;
    }
    if n > MEDIUM_MAX {
        return alloc_big(n, SLOT, Clear::Block);
    }
    let class = size_class::of16(n.max(1));
    // SAFETY: it is the size of the class.
    unsafe { zeroed_request(class, n, size_of(class)) }
}

/// Allocates a block of `class` whose first `n` bytes are zero.
///
/// # Safety
/// `class` is below `CLASSES`, and `n` is at most its size.
pub unsafe fn zeroed_class(class: usize, n: usize) -> *mut u8 {
    if class < FIRST_LONG
        && let Some(p) = pop(class)
    {
        // SAFETY: the block was on the list of its class, and is this call's now. The caller
        // promises that the class has `n` bytes.
        unsafe { p.write_bytes(0, n) };
        return p;
    }
    // SAFETY: the caller promises that the class has `n` bytes.
    unsafe { zeroed_request(class, size_of(class), n) }
}

/// [`zeroed_class`] for a request that is known.
///
/// # Safety
/// As [`zeroed_class`]; `request` is at most the size of the class. A sampled block is zero
/// already.
unsafe fn zeroed_request(class: usize, request: usize, n: usize) -> *mut u8 {
    let Some((block, zero)) = from_class(class, request) else { return no_memory() };
    let p = block.as_ptr().cast::<u8>();
    if !zero {
        // SAFETY: `from_class` has just allocated the block, and the caller promises that it has
        // `n` bytes.
        unsafe { p.write_bytes(0, n) };
    }
    p
}
