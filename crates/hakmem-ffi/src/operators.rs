//! C++ `operator new` and `operator delete`, under their Itanium ABI names.
//!
//! 1. Four operators are basic: new and delete, without and with an alignment. They have the fast
//!    path of the core inlined, without a jump through `malloc`.
//! 2. A program may replace any operator. The standard says which other one each operator calls, so
//!    a program may replace the basic ones alone. `derived` has the others.
//! 3. Each of the four has a section of its own. Otherwise the compiler may find that, say, `free`
//!    has the same code, and make it a jump to the operator: then to the program's.
//! 4. All of them end in plain returns or in a tail call. `bad_alloc` has what follows a failure.
//!
//! Names: `nw` and `dl` are new and delete, `na` and `da` their array forms, `m` is a size
//! (`unsigned long`), `St11align_val_t` an alignment, `RKSt9nothrow_t` the nothrow tag.

#[cfg_attr(target_arch = "x86_64", path = "operators/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "operators/aarch64.rs")]
mod arch;
mod derived;

#[cfg(feature = "hardened")]
pub use derived::has_own_operators;

use crate::bad_alloc::kind;
use crate::{aligned, bad_alloc};
use core::ffi::c_void;
use hakmem_core::c;

/// `size_t` is mangled `m` on every 64-bit Unix.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("the C++ operator names below are those of 64-bit targets");

/// `new`, or the array form. Its callers are C++, and can take an exception.
///
/// The size does not outlive the fast path: a size that is kept for a later handler would lie in a
/// saved register, and the fast path would pay for the saving.
#[inline(always)]
unsafe extern "C-unwind" fn new<const ARRAY: bool>(size: usize) -> *mut c_void {
    // SAFETY: new_or allows any size, and the caller can take an exception.
    unsafe { c::new_or(size, ARRAY, |size| slow_or_throw::<ARRAY>(size).cast()).cast() }
}

#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn slow_or_throw<const ARRAY: bool>(size: usize) -> *mut c_void {
    // SAFETY: the core's new allows any size.
    let p = unsafe { c::new(size, 1, ARRAY) };
    if p.is_null() {
        // SAFETY: only the operators call this, so the caller is C++, which can take an exception.
        // No local here has a destructor that an exception would skip.
        return unsafe { bad_alloc::new_or_throw(size, kind(1, ARRAY)) };
    }
    p.cast()
}

/// `new` with nothrow. Its callers are C++, and can take a forced unwind.
unsafe extern "C-unwind" fn new_nothrow<const ARRAY: bool>(size: usize) -> *mut c_void {
    // SAFETY: new_or allows any size, and the caller can take a forced unwind.
    unsafe { c::new_or(size, ARRAY, |size| slow_or_null::<ARRAY>(size).cast()).cast() }
}

#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn slow_or_null<const ARRAY: bool>(size: usize) -> *mut c_void {
    // SAFETY: the core's new allows any size.
    let p = unsafe { c::new(size, 1, ARRAY) };
    if p.is_null() {
        // SAFETY: only the operators call this, so the caller is C++, which can take a forced
        // unwind. No local here has a destructor that it would skip.
        return unsafe { bad_alloc::new_or_null(size, kind(1, ARRAY)) };
    }
    p.cast()
}

/// `new` with an alignment. Its callers are C++, and can take an exception.
#[inline(always)]
unsafe extern "C-unwind" fn new_aligned<const ARRAY: bool>(
    size: usize,
    align: usize,
) -> *mut c_void {
    let p = aligned::allocate_new(align, size, ARRAY);
    if p.is_null() {
        // SAFETY: the caller is C++ and can take an exception. No local here has a destructor that
        // an exception would skip.
        return unsafe {
            match align.is_power_of_two() {
                true => bad_alloc::new_or_throw(size, kind(align, ARRAY)),
                false => bad_alloc::throw(),
            }
        };
    }
    p
}

/// `new` with an alignment and nothrow. Its callers are C++, and can take a forced unwind.
unsafe extern "C-unwind" fn new_aligned_nothrow<const ARRAY: bool>(
    size: usize,
    align: usize,
) -> *mut c_void {
    let p = aligned::allocate_new(align, size, ARRAY);
    if p.is_null() && align.is_power_of_two() {
        // SAFETY: the caller is C++ and can take a forced unwind. No local here has a destructor
        // that it would skip.
        return unsafe { bad_alloc::new_or_null(size, kind(align, ARRAY)) };
    }
    p
}

/// `delete`. C++ passes NULL or a live block of the matching `new`.
#[inline(always)]
unsafe extern "C" fn delete<const ARRAY: bool>(p: *mut c_void) {
    // SAFETY: C++ passes NULL or a live block of the matching operator new.
    unsafe { c::delete(p.cast(), ARRAY) }
}

/// `delete` with a size. C++ passes NULL or a live block of the matching `new`.
#[cfg(feature = "hardened")]
unsafe extern "C" fn delete_sized<const ARRAY: bool>(p: *mut c_void, size: usize) {
    // SAFETY: C++ passes NULL or a live block of the matching operator new.
    unsafe { c::delete_sized(p.cast(), ARRAY, size) }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem._Znwm")]
pub unsafe extern "C-unwind" fn _Znwm(size: usize) -> *mut c_void {
    // SAFETY: this name is a C++ operator, so the caller is C++ and can take an exception.
    unsafe { new::<false>(size) }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem._ZnwmSt11align_val_t")]
pub unsafe extern "C-unwind" fn _ZnwmSt11align_val_t(size: usize, align: usize) -> *mut c_void {
    // SAFETY: this name is a C++ operator, so the caller is C++ and can take an exception.
    unsafe { new_aligned::<false>(size, align) }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem._ZdlPv")]
pub unsafe extern "C" fn _ZdlPv(p: *mut c_void) {
    // SAFETY: C++ passes NULL or a live block of the matching operator new.
    unsafe { delete::<false>(p) }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.hot.hakmem._ZdlPvSt11align_val_t")]
pub unsafe extern "C" fn _ZdlPvSt11align_val_t(p: *mut c_void, _align: usize) {
    // SAFETY: C++ passes NULL or a live block of the matching operator new.
    unsafe { delete::<false>(p) }
}
