//! rusty_alloc as a shared library to preload: the names of the C library, each one call.

use core::ffi::{c_int, c_void};
use rusty_alloc::alloc as ra;
use std::ptr;

/// What C aligns a block to.
const ALIGN: usize = 16;

fn out_of_memory() -> *mut c_void {
    // SAFETY: each thread has its own errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}

fn found(block: *mut u8) -> *mut c_void {
    if block.is_null() {
        out_of_memory()
    } else {
        block.cast()
    }
}

/// C's size, as blocks of 8 bytes are not aligned to 16.
fn rounded(size: usize) -> usize {
    if size <= 8 { ALIGN } else { size }
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    found(ra::malloc(rounded(size)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    if !block.is_null() {
        // SAFETY: the program passes a block that it has from this library.
        unsafe { ra::free(block.cast()) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => found(ra::zalloc(rounded(bytes))),
        None => out_of_memory(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    // SAFETY: the program passes a live block of this library; NULL was handled before.
    found(unsafe { ra::realloc(block.cast(), rounded(size)) })
}

#[unsafe(no_mangle)]
extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    found(ra::malloc_aligned(size, align.max(ALIGN)))
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    memalign(align, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    let block = ra::malloc_aligned(size, align.max(ALIGN));
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the program passes a place for the pointer.
    unsafe { place.write(block.cast()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if block.is_null() {
        return 0;
    }
    // SAFETY: the program passes a live block of this library; NULL was handled before.
    unsafe { ra::usable_size(block.cast()) }
}

// operator new, new[], delete, delete[], and the sized deletes: C++ programs reach them without the
// way by malloc.
macro_rules! new {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(size: usize) -> *mut c_void { malloc(size) }
    )*};
}
new!(_Znwm, _Znam);

macro_rules! delete {
    ($($name:ident($($more:ident: $kind:ty),*)),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(block: *mut c_void $(, $more: $kind)*) {
            $(let _ = $more;)*
            // SAFETY: the program passes a block that it has from this library, or null.
            unsafe { free(block) };
        }
    )*};
}
delete!(_ZdlPv(), _ZdaPv(), _ZdlPvm(_size: usize), _ZdaPvm(_size: usize));
