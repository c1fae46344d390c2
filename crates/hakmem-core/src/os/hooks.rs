//! What libc calls when a thread ends and when the process forks.

use core::ffi::c_void;

/// Stands for a function that is called in each thread that ends with a value.
pub type Key = libc::pthread_key_t;

/// Has `f` called with its value in each thread that ends with one that is not null. None: there are no keys left.
pub fn make_exit_key(f: unsafe extern "C" fn(*mut c_void)) -> Option<Key> {
    let mut key = 0;
    // SAFETY: writes one key; the function lives as long as the key.
    (unsafe { libc::pthread_key_create(&mut key, Some(f)) } == 0).then_some(key)
}

/// Sets the calling thread's value. If there is no memory for that, `f` is not called. May allocate.
pub fn set_exit_value(key: Key, value: *const c_void) {
    // SAFETY: a key that was made and not dropped.
    unsafe { libc::pthread_setspecific(key, value) };
}

/// No function is called any more.
pub fn drop_exit_key(key: Key) {
    // SAFETY: a key that was made; who drops it does not use it again.
    unsafe { libc::pthread_key_delete(key) };
}

/// Has functions called around each fork. May allocate.
pub fn at_fork(before: extern "C" fn(), after: extern "C" fn(), after_in_child: extern "C" fn()) {
    if cfg!(miri) {
        return; // It does not know fork.
    }
    // SAFETY: plain registration; libc takes it back when the library that has the functions is unloaded.
    unsafe { register(before, after, after_in_child) };
}

/// What glibc's `pthread_atfork` does. That is linked into each library, behind everything else: a page fault at start-up
/// for one jump.
#[cfg(target_env = "gnu")]
unsafe fn register(before: extern "C" fn(), after: extern "C" fn(), after_in_child: extern "C" fn()) {
    type Handler = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn __register_atfork(_: Handler, _: Handler, _: Handler, library: *const c_void) -> core::ffi::c_int;
        /// What libc knows the program or library by; constant.
        static __dso_handle: *const c_void;
    }
    // SAFETY: as `pthread_atfork`.
    unsafe { __register_atfork(Some(before), Some(after), Some(after_in_child), __dso_handle) };
}

#[cfg(not(target_env = "gnu"))]
unsafe fn register(before: extern "C" fn(), after: extern "C" fn(), after_in_child: extern "C" fn()) {
    // SAFETY: plain registration; the functions are there as long as the program or library that
    // this is linked into.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after_in_child)) };
}
