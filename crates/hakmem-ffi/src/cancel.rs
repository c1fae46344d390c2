//! Keeps thread cancellation away from calls of the C library that are cancellation points.

use core::ffi::c_int;

const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs `f` with cancellation disabled. A thread that ended in `fwrite` would leave memory mapped.
/// A request to cancel stays pending until the program's own next cancellation point.
pub fn held_off<T>(f: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: `before` is valid for the write. The call changes only the calling thread's state.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let result = f();
    // SAFETY: `before` is a state that the first call gave. Null: glibc then writes no old state.
    unsafe { pthread_setcancelstate(before, core::ptr::null_mut()) };
    result
}
