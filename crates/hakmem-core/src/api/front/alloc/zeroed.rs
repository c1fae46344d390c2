//! Blocks with a class that are zero, for calloc and its like.
//!
//! Rules
//! 1. Memory that is known to be zero is not cleared again (`alloc` rule 2).

use super::{Clear, alloc_big, alloc_nothing, from_class, no_memory, size_of};
use crate::backend::arena::SLOT;
use crate::base::size_class::{self, MEDIUM_MAX};

/// Allocates a block for `n` bytes, aligned to 16. All bytes of the block are zero. Memory that is
/// known to be zero is not cleared again.
pub fn alloc16_zeroed(n: usize) -> *mut u8 {
    if n == 0 {
        return alloc_nothing();
    }
    if n > MEDIUM_MAX {
        return alloc_big(n, SLOT, Clear::Block);
    }
    let class = size_class::of16(n);
    // SAFETY: it is the size of the class.
    unsafe { zeroed_request(class, n, size_of(class)) }
}

/// Allocates a block of `class` whose first `n` bytes are zero.
///
/// # Safety
/// `class` is below `CLASSES`, and `n` is at most its size.
pub unsafe fn zeroed_class(class: usize, n: usize) -> *mut u8 {
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
