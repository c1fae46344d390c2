//! The first and the last that the process runs of the allocator: the loader calls both.

use crate::thread;
#[cfg(all(target_os = "linux", target_env = "gnu", not(any(miri, shuttle))))]
use {
    crate::policy::options,
    core::ffi::{c_char, c_int},
};

/// Where constructors get the environment, it is read before `main`.
#[cfg(all(target_os = "linux", target_env = "gnu", not(any(miri, shuttle))))]
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn on_start(_argc: c_int, _argv: *const *const c_char, envp: *const *const c_char) {
    // SAFETY: glibc passes the environment to every constructor; it is not changed before they have all run.
    let reports_are_asked_for = unsafe { options::read_once(envp) };
    thread::on_load();
    if reports_are_asked_for {
        // SAFETY: as above; `read_once` has seen that the environment may be trusted.
        #[cfg(feature = "reports")]
        unsafe {
            crate::observe::report::life::start_in_program(envp)
        };
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", not(any(miri, shuttle))))]
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = on_start;

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(any(miri, shuttle)))))]
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = thread::on_load;

/// The library that carries the allocator is unloaded (dlclose of a plug-in), or the process exits: nothing may call its
/// code any more. The report at exit is written.
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn on_unload() {
    thread::stop();
    #[cfg(all(feature = "reports", not(any(miri, shuttle))))]
    crate::observe::report::life::end();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static ON_UNLOAD: extern "C" fn() = on_unload;
