//! `malloc` and the functions of `<stdlib.h>` around it.
//!
//! Every function in this file has the contract of the C function whose name it bears: a pointer that it takes comes
//! from one of the allocation functions of this library (or is NULL, or foreign: the core sorts these out) and is not
//! used again after it was freed. SAFETY comments call this *the C contract*.

use crate::errno;
use core::ffi::{c_int, c_void};
use hakmem_core::c;
use libc::{EINVAL, ENOMEM, EOVERFLOW};

/// The largest request: differences of pointers into a block must fit `ptrdiff_t`.
pub const MAX: usize = isize::MAX as usize;

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: any size is allowed.
    unsafe { c::malloc(size).cast() }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn free(p: *mut c_void) {
    // SAFETY: the C contract.
    unsafe { c::free(p.cast()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(p: *mut c_void) {
    // SAFETY: the C contract.
    unsafe { c::free(p.cast()) }
}

/// C23. A wrong size is forgiven, as glibc does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(p: *mut c_void, _size: usize) {
    // SAFETY: the C contract.
    unsafe { c::free(p.cast()) }
}

/// C23. A wrong alignment or size is forgiven, as glibc does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(p: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the C contract.
    unsafe { c::free(p.cast()) }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: any size up to MAX is allowed.
        Some(bytes) if bytes <= MAX => unsafe { c::zeroed(bytes).cast() },
        _ => errno::fail(ENOMEM),
    }
}

/// `realloc(p, 0)` frees `p` and returns NULL, as glibc does; `realloc(NULL, n)` is `malloc(n)`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
    if p.is_null() {
        // SAFETY: any size is allowed.
        return unsafe { c::malloc(size).cast() };
    }
    if size == 0 {
        // SAFETY: the C contract.
        unsafe { c::free(p.cast()) };
        return core::ptr::null_mut();
    }
    if size > MAX {
        return errno::fail(ENOMEM);
    }
    // SAFETY: the C contract, p is not NULL, and 0 < size ≤ MAX.
    unsafe { c::realloc(p.cast(), size).cast() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(p: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the C contract.
        Some(bytes) => unsafe { realloc(p, bytes) },
        None => errno::fail(ENOMEM),
    }
}

/// BSD: a failed `reallocf` frees the old block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocf(p: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the C contract.
    let q = unsafe { realloc(p, size) };
    if q.is_null() && size != 0 {
        // SAFETY: a failed realloc leaves p allocated; free leaves errno alone and ignores NULL.
        unsafe { c::free(p.cast()) };
    }
    q
}

/// NetBSD: `*slot` is the pointer to resize; returns 0 or an error number and leaves errno alone. An empty request
/// frees the block and stores NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarr(slot: *mut c_void, count: usize, size: usize) -> c_int {
    let slot: *mut *mut c_void = slot.cast();
    let Some(bytes) = count.checked_mul(size) else {
        return EOVERFLOW;
    };
    if slot.is_null() {
        return EINVAL;
    }
    // SAFETY: by reallocarr's contract `slot` points to a pointer, not necessarily an aligned one.
    let p = unsafe { slot.read_unaligned() };
    // realloc(NULL, 0) would allocate.
    let q = match (p.is_null(), bytes) {
        (true, 0) => p,
        // SAFETY: the C contract.
        _ => errno::preserved(|| unsafe { realloc(p, bytes) }),
    };
    if q.is_null() && bytes != 0 {
        return ENOMEM;
    }
    // SAFETY: as for the read.
    unsafe { slot.write_unaligned(q) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(p: *mut c_void) -> usize {
    // SAFETY: the C contract.
    unsafe { c::usable_size(p.cast()) }
}
