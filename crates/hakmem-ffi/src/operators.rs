//! C++ `operator new` and `operator delete`, under their Itanium ABI names.
//!
//! Each operator has the fast path of the core inlined, without a jump through `malloc`. All of
//! them end in plain returns or in a tail call. `bad_alloc` has what follows a failure.
//!
//! Names: `nw` and `dl` are new and delete, `na` and `da` their array forms, `m` is a size
//! (`unsigned long`), `St11align_val_t` an alignment, `RKSt9nothrow_t` the nothrow tag.

use crate::bad_alloc::kind;
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
    is_array: bool,
    slow: unsafe extern "C-unwind" fn(usize) -> *mut c_void,
) -> *mut c_void {
    // SAFETY: new_or allows any size, and the caller keeps the promises that `slow` asks for.
    unsafe { c::new_or(size, is_array, |size| slow(size).cast()).cast() }
}

#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn slow_or_throw<const ARRAY: bool>(size: usize) -> *mut c_void {
    // SAFETY: the core's new allows any size.
    let p = unsafe { c::new(size, 1, ARRAY) };
    if p.is_null() {
        // SAFETY: only the operators below call this, so the caller is C++, which can take an
        // exception. No local here has a destructor that an exception would skip.
        return unsafe { bad_alloc::new_or_throw(size, kind(0, ARRAY)) };
    }
    p.cast()
}

#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn slow_or_null<const ARRAY: bool>(size: usize) -> *mut c_void {
    // SAFETY: the core's new allows any size.
    let p = unsafe { c::new(size, 1, ARRAY) };
    if p.is_null() {
        // SAFETY: only the operators below call this, so the caller is C++, which can take a forced
        // unwind. No local here has a destructor that it would skip.
        return unsafe { bad_alloc::new_or_null(size, kind(0, ARRAY)) };
    }
    p.cast()
}

macro_rules! operator_new {
    ($($name:ident $array:literal)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize) -> *mut c_void {
            // SAFETY: this name is a C++ operator, so the caller is C++ and can take an exception.
            unsafe { listed_or(size, $array, slow_or_throw::<$array>) }
        }
    )*};
}

macro_rules! operator_new_nothrow {
    ($($name:ident $array:literal)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize, _tag: *const c_void) -> *mut c_void {
            // SAFETY: this name is a C++ operator, so the caller is C++ and can take a forced
            // unwind.
            unsafe { listed_or(size, $array, slow_or_null::<$array>) }
        }
    )*};
}

macro_rules! operator_new_aligned {
    ($($name:ident $array:literal)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize, align: usize) -> *mut c_void {
            let p = aligned::allocate_new(align, size, $array);
            if p.is_null() {
                // SAFETY: this name is a C++ operator, so the caller is C++ and can take an
                // exception. No local here has a destructor that an exception would skip.
                return unsafe { bad_alloc::new_or_throw(size, kind(align, $array)) };
            }
            p
        }
    )*};
}

macro_rules! operator_new_aligned_nothrow {
    ($($name:ident $array:literal)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(size: usize, align: usize, _tag: *const c_void) -> *mut c_void {
            let p = aligned::allocate_new(align, size, $array);
            if p.is_null() {
                // SAFETY: this name is a C++ operator, so the caller is C++ and can take a forced
                // unwind. No local here has a destructor that it would skip.
                return unsafe { bad_alloc::new_or_null(size, kind(align, $array)) };
            }
            p
        }
    )*};
}

macro_rules! operator_delete {
    ($($name:ident($($extra:ident: $type:ty),*) $array:literal;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(p: *mut c_void $(, $extra: $type)*) {
            // SAFETY: C++ passes NULL or a live block of the matching operator new.
            unsafe { c::delete(p.cast(), $array) }
        }
    )*};
}

macro_rules! operator_delete_sized {
    ($($name:ident($($extra:ident),*) $array:literal;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(p: *mut c_void, size: usize $(, $extra: usize)*) {
            // SAFETY: C++ passes NULL or a live block of the matching operator new.
            unsafe { c::delete_sized(p.cast(), $array, size) }
        }
    )*};
}

operator_new!(_Znwm false _Znam true);
operator_new_nothrow!(_ZnwmRKSt9nothrow_t false _ZnamRKSt9nothrow_t true);
operator_new_aligned!(_ZnwmSt11align_val_t false _ZnamSt11align_val_t true);
operator_new_aligned_nothrow!(
    _ZnwmSt11align_val_tRKSt9nothrow_t false _ZnamSt11align_val_tRKSt9nothrow_t true
);
operator_delete! {
    _ZdlPv() false;
    _ZdaPv() true;
    _ZdlPvRKSt9nothrow_t(_tag: *const c_void) false;
    _ZdaPvRKSt9nothrow_t(_tag: *const c_void) true;
    _ZdlPvSt11align_val_t(_align: usize) false;
    _ZdaPvSt11align_val_t(_align: usize) true;
    _ZdlPvSt11align_val_tRKSt9nothrow_t(_align: usize, _tag: *const c_void) false;
    _ZdaPvSt11align_val_tRKSt9nothrow_t(_align: usize, _tag: *const c_void) true;
}
operator_delete_sized! {
    _ZdlPvm() false;
    _ZdaPvm() true;
    _ZdlPvmSt11align_val_t(_align) false;
    _ZdaPvmSt11align_val_t(_align) true;
}
