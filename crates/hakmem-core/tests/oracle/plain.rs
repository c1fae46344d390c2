//! Blocks of the front end for C, without the records of an oracle.

use hakmem_core::c;
use std::ffi::CStr;

/// Sets options, each of the form NAME=VALUE.
pub fn configure(options: &[&CStr]) {
    let mut envp: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
    envp.push(std::ptr::null());
    // SAFETY: a NULL-terminated array of C strings, which live through the call.
    unsafe { c::configure(envp.as_ptr()) }
}

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
