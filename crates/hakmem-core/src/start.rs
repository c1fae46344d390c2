//! The first and the last code of the allocator that the process runs. The loader calls both
//! functions.

use crate::api::hardened;
#[cfg(all(target_os = "linux", target_env = "gnu", not(any(miri, shuttle))))]
use crate::backend::arena;
use crate::{guard, harden, thread};
#[cfg(all(target_os = "linux", target_env = "gnu", not(any(miri, shuttle))))]
use {
    crate::policy::options,
    core::ffi::{c_char, c_int},
};

/// Reads the environment before `main`, where the loader passes it to constructors.
#[cfg(all(target_os = "linux", target_env = "gnu", not(any(miri, shuttle))))]
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn on_start(_argc: c_int, _argv: *const *const c_char, envp: *const *const c_char) {
    // SAFETY: glibc passes the environment to every constructor. No code changes it before all
    // constructors have run.
    let reports_are_asked_for = unsafe { options::read_once(envp) };
    thread::on_load();
    if harden::ON {
        // A filter that the program sets before its first allocation may forbid the call.
        let _held = arena::LOCK.lock();
        harden::key::draw();
    }
    if harden::ON || guard::is_on() {
        guard::start();
    }
    if reports_are_asked_for {
        // SAFETY: glibc passed the environment, and no code has changed it yet. `read_once` found
        // that it may be trusted.
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

/// Ends the threads of the allocator, and writes the report at exit. The library that has the
/// allocator is being unloaded (a plug-in, by dlclose), or the process exits. No code of the
/// library may run later.
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn on_unload() {
    if harden::ON {
        hardened::check_at_exit();
    }
    thread::stop();
    #[cfg(all(feature = "reports", not(any(miri, shuttle))))]
    crate::observe::report::life::end();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static ON_UNLOAD: extern "C" fn() = on_unload;
