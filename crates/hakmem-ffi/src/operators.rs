//! C++ `operator new` and `operator delete`, under their Itanium ABI names.
//!
//! Each operator has the fast path of the core inlined, without a jump through `malloc`. All of
//! them end in plain returns or in a tail call. `bad_alloc` has what follows a failure.
//!
//! Names: `nw` and `dl` are new and delete, `na` and `da` their array forms, `m` is a size
//! (`unsigned long`), `St11align_val_t` an alignment, `RKSt9nothrow_t` the nothrow tag.

use crate::{aligned, bad_alloc};
use core::ffi::c_void;
use hakmem_core::c;

/// `size_t` is mangled `m` on every 64-bit Unix.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("the C++ operator names below are those of 64-bit targets");

/// A block from the thread's lists, or the result of `slow`.
///
/// The size does not outlive the fast path: a size that is kept for a later handler would lie in a
/// saved register, and the fast path would pay for the saving.
///
/// # Safety
/// The caller keeps the promises that `slow` asks for.
#[inline(always)]
unsafe fn listed_or(
    size: usize,
    slow: unsafe extern "C-unwind" fn(usize) -> *mut c_void,
) -> *mut c_void {
    // SAFETY: malloc_or allows any size, and the caller keeps the promises that `slow` asks for.
    unsafe { c::malloc_or(size, |size| slow(size).cast()).cast() }
}

#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn slow_or_throw(size: usize) -> *mut c_void {
    // SAFETY: the core's malloc allows any size.
    let p = unsafe { c::malloc(size) };
    if p.is_null() {
        // SAFETY: only the operators below call this, so the caller is C++, which can take an
        // exception. No local here has a destructor that an exception would skip.
        return unsafe { bad_alloc::new_or_throw(size, 0) };
    }
    p.cast()
}

#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn slow_or_null(size: usize) -> *mut c_void {
    // SAFETY: the core's malloc allows any size.
    let p = unsafe { c::malloc(size) };
    if p.is_null() {
        // SAFETY: only the operators below call this, so the caller is C++, which can take a forced
        // unwind. No local here has a destructor that it would skip.
        return unsafe { bad_alloc::new_or_null(size, 0) };
    }
    p.cast()
}

macro_rules! operator_new {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize) -> *mut c_void {
            // SAFETY: this name is a C++ operator, so the caller is C++ and can take an exception.
            unsafe { listed_or(size, slow_or_throw) }
        }
    )*};
}

macro_rules! operator_new_nothrow {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize, _tag: *const c_void) -> *mut c_void {
            // SAFETY: this name is a C++ operator, so the caller is C++ and can take a forced
            // unwind.
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
                // SAFETY: this name is a C++ operator, so the caller is C++ and can take an
                // exception. No local here has a destructor that an exception would skip.
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
                // SAFETY: this name is a C++ operator, so the caller is C++ and can take a forced
                // unwind. No local here has a destructor that it would skip.
                return unsafe { bad_alloc::new_or_null(size, align) };
            }
            p
        }
    )*};
}

/// The core's `free` needs no size, alignment or tag. Programs with wrong sizes exist, and go on.
macro_rules! operator_delete {
    ($($name:ident($($extra:ident: $type:ty),*))*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(p: *mut c_void $(, $extra: $type)*) {
            // SAFETY: C++ passes NULL or a live block of the matching operator new.
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
