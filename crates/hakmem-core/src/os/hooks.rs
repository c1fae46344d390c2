//! Registers functions that libc calls when a thread ends and when the process forks.

use core::ffi::c_void;

/// A registration of a function that libc calls at a thread's end. Each thread has a value for it.
pub type Key = libc::pthread_key_t;

/// Registers `f`. libc calls it in each thread that ends and whose value is not null, with that
/// value. Returns None if libc has no keys left.
pub fn make_exit_key(f: unsafe extern "C" fn(*mut c_void)) -> Option<Key> {
    let mut key = 0;
    // SAFETY: `key` is writable. `f` stays callable until `drop_exit_key`: the library drops the
    // key before it is unloaded.
    (unsafe { libc::pthread_key_create(&mut key, Some(f)) } == 0).then_some(key)
}

/// Sets the calling thread's value. If libc has no memory for that, it does not call the function.
/// May allocate.
pub fn set_exit_value(key: Key, value: *const c_void) {
    // SAFETY: callers pass a key from `make_exit_key` that they have not dropped. libc does not
    // read through the value.
    unsafe { libc::pthread_setspecific(key, value) };
}

/// Ends a registration: libc no longer calls the function.
pub fn drop_exit_key(key: Key) {
    // SAFETY: callers pass a key from `make_exit_key`, and do not use it again.
    unsafe { libc::pthread_key_delete(key) };
}

/// Has libc call three functions around each fork. May allocate.
pub fn at_fork(before: extern "C" fn(), after: extern "C" fn(), after_in_child: extern "C" fn()) {
    if cfg!(miri) {
        return; // Miri does not know fork.
    }
    // SAFETY: the functions stay callable as long as they are registered: libc ends the
    // registration when the library that has them is unloaded.
    unsafe { register(before, after, after_in_child) };
}

/// Does what glibc's `pthread_atfork` does. The linker puts that function into each library, behind
/// all other code. Calling it would cost a page fault at start-up, for one jump.
///
/// # Safety
/// The functions are in the program or library that this code is linked into.
#[cfg(target_env = "gnu")]
unsafe fn register(
    before: extern "C" fn(),
    after: extern "C" fn(),
    after_in_child: extern "C" fn(),
) {
    type Handler = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn __register_atfork(
            _: Handler,
            _: Handler,
            _: Handler,
            library: *const c_void,
        ) -> core::ffi::c_int;
        /// Its address names the program or library for libc.
        static __dso_handle: *const c_void;
    }
    // SAFETY: the declaration is that of glibc. The functions stay callable until the program or
    // library that `__dso_handle` names is unloaded; then glibc ends the registration.
    unsafe { __register_atfork(Some(before), Some(after), Some(after_in_child), __dso_handle) };
}

/// Registers the functions for each fork.
///
/// # Safety
/// The functions are in the program or library that this code is linked into.
#[cfg(not(target_env = "gnu"))]
unsafe fn register(
    before: extern "C" fn(),
    after: extern "C" fn(),
    after_in_child: extern "C" fn(),
) {
    // SAFETY: the functions stay callable as long as the program or library that has them is
    // loaded, as the caller promises. libc ends the registration when it is unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after_in_child)) };
}
