//! C++ `operator new` and `operator delete`, under their Itanium ABI names.
//!
//! Each has the fast path of the core inlined: no jump through `malloc`. All of them end in plain returns or in a tail
//! call; see `bad_alloc` for what follows a failure. Names: `n`/`d` and `w`/`l` are new and delete, `a` the array
//! forms, `m` a size (`unsigned long`), `St11align_val_t` an alignment, `RKSt9nothrow_t` the nothrow tag.

use crate::{aligned, bad_alloc};
use core::ffi::c_void;
use hakmem_core::c;

/// `size_t` is mangled `m` on every 64-bit Unix.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("the C++ operator names below are those of 64-bit targets");

/// A block from the thread's lists, or what `slow` gives. The size must not outlive the fast path: kept for a handler
/// to come it would sit in a saved register, and the fast path would pay for the saving.
#[inline(always)]
unsafe fn listed_or(
    size: usize,
    slow: unsafe extern "C-unwind" fn(usize) -> *mut c_void,
) -> *mut c_void {
    // SAFETY: any size is allowed; the rest is the caller's.
    unsafe { c::malloc_or(size, |size| slow(size).cast()).cast() }
}

#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn slow_or_throw(size: usize) -> *mut c_void {
    // SAFETY: any size is allowed.
    let p = unsafe { c::malloc(size) };
    if p.is_null() {
        // SAFETY: the caller is C++, as new_or_throw asks, and nothing here has a destructor.
        return unsafe { bad_alloc::new_or_throw(size, 0) };
    }
    p.cast()
}

#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn slow_or_null(size: usize) -> *mut c_void {
    // SAFETY: any size is allowed.
    let p = unsafe { c::malloc(size) };
    if p.is_null() {
        // SAFETY: the caller is C++, as new_or_null asks, and nothing here has a destructor.
        return unsafe { bad_alloc::new_or_null(size, 0) };
    }
    p.cast()
}

macro_rules! operator_new {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize) -> *mut c_void {
            // SAFETY: the caller is C++, as slow_or_throw asks.
            unsafe { listed_or(size, slow_or_throw) }
        }
    )*};
}

macro_rules! operator_new_nothrow {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize, _tag: *const c_void) -> *mut c_void {
            // SAFETY: the caller is C++, as slow_or_null asks.
            unsafe { listed_or(size, slow_or_null) }
        }
    )*};
}

macro_rules! operator_new_aligned {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize, align: usize) -> *mut c_void {
            let p = aligned::allocate(align, size);
            if p.is_null() {
                // SAFETY: the caller is C++, as new_or_throw asks, and nothing here has a destructor.
                return unsafe { bad_alloc::new_or_throw(size, align) };
            }
            p
        }
    )*};
}

macro_rules! operator_new_aligned_nothrow {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize, align: usize, _tag: *const c_void) -> *mut c_void {
            let p = aligned::allocate(align, size);
            if p.is_null() {
                // SAFETY: the caller is C++, as new_or_null asks, and nothing here has a destructor.
                return unsafe { bad_alloc::new_or_null(size, align) };
            }
            p
        }
    )*};
}

/// Sizes, alignments and tags are of no use to the core's untyped free: a wrong size exists in the field.
macro_rules! operator_delete {
    ($($name:ident($($extra:ident: $type:ty),*))*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(p: *mut c_void $(, $extra: $type)*) {
            // SAFETY: delete takes what the matching new gave, or NULL.
            unsafe { c::free(p.cast()) }
        }
    )*};
}

operator_new!(_Znwm _Znam);
operator_new_nothrow!(_ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t);
operator_new_aligned!(_ZnwmSt11align_val_t _ZnamSt11align_val_t);
operator_new_aligned_nothrow!(_ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t);
operator_delete! {
    _ZdlPv()
    _ZdaPv()
    _ZdlPvm(_size: usize)
    _ZdaPvm(_size: usize)
    _ZdlPvRKSt9nothrow_t(_tag: *const c_void)
    _ZdaPvRKSt9nothrow_t(_tag: *const c_void)
    _ZdlPvSt11align_val_t(_align: usize)
    _ZdaPvSt11align_val_t(_align: usize)
    _ZdlPvmSt11align_val_t(_size: usize, _align: usize)
    _ZdaPvmSt11align_val_t(_size: usize, _align: usize)
    _ZdlPvSt11align_val_tRKSt9nothrow_t(_align: usize, _tag: *const c_void)
    _ZdaPvSt11align_val_tRKSt9nothrow_t(_align: usize, _tag: *const c_void)
}
