//! Cancellation, kept away from the calls that would act on it.

use core::ffi::c_int;

const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs `f`, in which no call is a cancellation point: a thread that ended in `open` or `write` would leave a descriptor or a mapping
/// behind, or signals blocked. A request that is pending stays so until the program's own next such call.
pub fn held_off<T>(f: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: the pointer is valid for the old state to be written; it changes nothing but the calling thread's own.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let result = f();
    // SAFETY: sets the calling thread's own state, to one that the first call gave; null: the old
    // state is not wanted.
    unsafe { pthread_setcancelstate(before, core::ptr::null_mut()) };
    result
}
