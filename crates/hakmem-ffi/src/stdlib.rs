//! `malloc` and the functions of `<stdlib.h>` around it.
//!
//! Every function in this file has the contract of the C function of its name. SAFETY comments call
//! these two promises of the caller *the C contract*:
//!
//! 1. A pointer to a block is NULL, foreign, or a live block of this library's allocation
//!    functions. The core tells these apart.
//! 2. The program does not use a block after it has freed it.

use crate::{bound, errno};
use core::ffi::{c_int, c_void};
use hakmem_core::c;
use libc::{EINVAL, ENOMEM, EOVERFLOW};

/// The largest request: the difference of two pointers into a block must fit `ptrdiff_t`.
pub const MAX: usize = isize::MAX as usize;

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: the core's malloc allows any size.
    unsafe { c::malloc(size).cast() }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn free(p: *mut c_void) {
    // SAFETY: by the C contract `p` is NULL, foreign or a live block, and the caller gives it up.
    unsafe { c::free(p.cast()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(p: *mut c_void) {
    // SAFETY: by the C contract `p` is NULL, foreign or a live block, and the caller gives it up.
    unsafe { c::free(p.cast()) }
}

/// C23. Only the hardened build finds a wrong size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(p: *mut c_void, size: usize) {
    // SAFETY: by the C contract `p` is NULL, foreign or a live block, and the caller gives it up.
    unsafe {
        match bound::free() {
            Some(free) => free(p),
            None => c::free_sized(p.cast(), size),
        }
    }
}

/// C23. Ignores a wrong alignment, as glibc does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(p: *mut c_void, _align: usize, size: usize) {
    // SAFETY: the same contract.
    unsafe { free_sized(p, size) }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the core's zeroed allows any size up to MAX, which was just checked.
        Some(bytes) if bytes <= MAX => unsafe { c::zeroed(bytes).cast() },
        _ => errno::fail(ENOMEM),
    }
}

/// `realloc(p, 0)` frees `p` and returns NULL, as glibc does; `realloc(NULL, n)` is `malloc(n)`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe extern "C" fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { own_realloc(p, size) }
}

/// This library's [`realloc`], whatever the process has under that name.
#[inline(always)]
pub unsafe fn own_realloc(p: *mut c_void, size: usize) -> *mut c_void {
    if p.is_null() {
        // SAFETY: the core's malloc allows any size.
        return unsafe { c::malloc(size).cast() };
    }
    if size == 0 {
        // SAFETY: by the C contract `p` is foreign or a live block, and the caller gives it up.
        unsafe { c::free(p.cast()) };
        return core::ptr::null_mut();
    }
    if size > MAX {
        return errno::fail(ENOMEM);
    }
    // SAFETY: by the C contract `p` is foreign or a live block; NULL was handled above. The checks
    // above leave 0 < size ≤ MAX.
    unsafe { c::realloc(p.cast(), size).cast() }
}

/// The process's [`realloc`], which the functions derived from it call: see `bound`.
///
/// # Safety
/// As [`realloc`].
unsafe fn process_realloc(p: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { bound::realloc_to_call()(p, size) }
}

/// Resizes by `realloc` to `count` times `size` bytes.
///
/// # Safety
/// As [`reallocarray`].
#[inline(always)]
unsafe fn to_array(
    p: *mut c_void,
    count: usize,
    size: usize,
    realloc: unsafe fn(*mut c_void, usize) -> *mut c_void,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: realloc has the same contract for `p`, which the caller keeps, and allows any
        // size.
        Some(bytes) => unsafe { realloc(p, bytes) },
        None => errno::fail(ENOMEM),
    }
}

/// Calls the process's `realloc`, as glibc's does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(p: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { to_array(p, count, size, process_realloc) }
}

/// This library's [`reallocarray`], whatever the process's `realloc` is.
pub unsafe fn own_reallocarray(p: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { to_array(p, count, size, own_realloc) }
}

/// BSD: a failed `reallocf` frees the old block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocf(p: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: realloc has the same contract for `p`, which the caller keeps, and allows any size.
    let q = unsafe { process_realloc(p, size) };
    if q.is_null() && size != 0 {
        // SAFETY: a failed realloc leaves `p` allocated, or `p` is NULL, which free ignores. The
        // caller gives `p` up. free leaves errno alone.
        unsafe { bound::free_to_call()(p) };
    }
    q
}

/// NetBSD: `*slot` is the pointer to resize. Returns 0 or an error number, and leaves errno alone.
/// An empty request frees the block and stores NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarr(slot: *mut c_void, count: usize, size: usize) -> c_int {
    let slot: *mut *mut c_void = slot.cast();
    let Some(bytes) = count.checked_mul(size) else {
        return EOVERFLOW;
    };
    if slot.is_null() {
        return EINVAL;
    }
    // SAFETY: by reallocarr's contract `slot` points to a pointer. The read needs no alignment.
    let p = unsafe { slot.read_unaligned() };
    // realloc(NULL, 0) would allocate.
    let q = match (p.is_null(), bytes) {
        (true, 0) => p,
        // SAFETY: by the C contract `p`, the pointer in `slot`, is NULL, foreign or a live block.
        _ => errno::preserved(|| unsafe { process_realloc(p, bytes) }),
    };
    if q.is_null() && bytes != 0 {
        return ENOMEM;
    }
    // SAFETY: by reallocarr's contract `slot` may also be written. The write needs no alignment.
    unsafe { slot.write_unaligned(q) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(p: *mut c_void) -> usize {
    // SAFETY: by the C contract `p` is NULL, foreign or a live block.
    unsafe { c::usable_size(p.cast()) }
}
