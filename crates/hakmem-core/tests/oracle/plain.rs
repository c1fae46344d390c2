//! Blocks of the front end for C, without the records of an oracle.

use hakmem_core::c;

/// Allocates a block. Fails if memory runs out.
pub fn take(n: usize) -> *mut u8 {
    // SAFETY: `malloc` allows any size.
    let p = unsafe { c::malloc(n) };
    assert!(!p.is_null());
    p
}

/// Frees a block of `take` or `resize`.
pub fn free(p: *mut u8) {
    // SAFETY: the tests pass live blocks of `take` or `resize`, and free each one once.
    unsafe { c::free(p) }
}

/// Resizes a live block. `n` is not 0. Fails if memory runs out.
pub fn resize(p: *mut u8, n: usize) -> *mut u8 {
    // SAFETY: the tests pass a live block of `take` or `resize`, and a size that is not 0. They do
    // not use the old pointer again.
    let to = unsafe { c::realloc(p, n) };
    assert!(!to.is_null());
    to
}
