//! errno: setting it, and leaving it as it was.

use core::ffi::c_int;

fn slot() -> *mut c_int {
    // SAFETY: no preconditions.
    unsafe { libc::__errno_location() }
}

/// Sets errno.
#[cold]
pub fn set(value: c_int) {
    // SAFETY: errno's address is valid for the calling thread.
    unsafe { *slot() = value }
}

/// Sets errno and gives the NULL to return.
#[cold]
pub fn fail<T>(value: c_int) -> *mut T {
    set(value);
    core::ptr::null_mut()
}

/// Runs `f` and puts errno back as it was.
pub fn preserved<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: errno's address is valid for the calling thread.
    let before = unsafe { *slot() };
    let result = f();
    // SAFETY: as above.
    unsafe { *slot() = before };
    result
}
