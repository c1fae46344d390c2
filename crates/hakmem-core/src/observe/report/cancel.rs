//! Keeps thread cancellation away from calls that are cancellation points.

use core::ffi::c_int;

const DISABLE: c_int = 1;

unsafe extern "C" {
    pub fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Disables cancellation of the calling thread. Returns the state before.
pub fn disable() -> c_int {
    let mut before = 0;
    // SAFETY: `before` is valid for the write. The call changes only the calling thread's state.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    before
}

/// Restores the state that [`disable`] returned.
pub fn restore(before: c_int) {
    // SAFETY: the calling thread had this state. Null: libc then writes no old state.
    unsafe { pthread_setcancelstate(before, core::ptr::null_mut()) };
}

/// Runs `f` with cancellation disabled. A thread that ended in `open` or `write` would leave a
/// descriptor open, memory mapped or signals blocked. A request to cancel stays pending until the
/// program's own next cancellation point.
pub fn held_off<T>(f: impl FnOnce() -> T) -> T {
    let before = disable();
    let result = f();
    restore(before);
    result
}
