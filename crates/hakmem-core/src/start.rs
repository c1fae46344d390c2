//! The first and the last code of the allocator that the process runs. The loader calls both
//! functions.

use crate::api::hardened;
use crate::{harden, thread};
#[cfg(all(target_os = "linux", not(any(miri, shuttle))))]
use {crate::backend::arena, crate::guard, crate::policy::environment, core::ffi::c_char};

/// Reads the environment before `main`.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, and nobody changes either during the
/// call.
#[cfg(all(target_os = "linux", not(any(miri, shuttle))))]
#[inline(always)]
unsafe fn begin(envp: *const *const c_char) {
    // SAFETY: the caller says that `envp` is NULL or such an array, and that nobody changes it
    // during this call.
    let reports_are_asked_for = unsafe { environment::read_once(envp) };
    thread::on_load();
    if harden::ON {
        // A filter that the program sets before its first allocation may forbid the call.
        let _held = arena::LOCK.lock();
        harden::key::draw();
    }
    // Without glibc, the search for what a report's stack needs costs more.
    if cfg!(target_env = "gnu") || harden::ON || guard::is_on() {
        guard::start();
    }
    if reports_are_asked_for {
        // SAFETY: the caller says that `envp` is NULL or such an array, and that nobody changes it
        // during this call. `read_once` found that the environment may be trusted.
        #[cfg(feature = "reports")]
        unsafe {
            crate::observe::report::life::start_in_program(envp)
        };
    }
}

/// glibc passes the environment to constructors.
#[cfg(all(target_os = "linux", target_env = "gnu", not(any(miri, shuttle))))]
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn on_start(
    _argc: core::ffi::c_int,
    _argv: *const *const c_char,
    envp: *const *const c_char,
) {
    // SAFETY: glibc passes the environment to every constructor. No code of the program runs before
    // the constructors at the start. Of a plug-in, this thread is in `dlopen`: a program that
    // changes the environment meanwhile races with every getenv of the C library, too.
    unsafe { begin(envp) }
}

#[cfg(all(target_os = "linux", target_env = "gnu", not(any(miri, shuttle))))]
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn(core::ffi::c_int, *const *const c_char, *const *const c_char) =
    on_start;

/// Other C libraries have set `environ` before the first constructor.
#[cfg(all(target_os = "linux", not(target_env = "gnu"), not(any(miri, shuttle))))]
extern "C" fn on_start() {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library has set `environ`. No code of the program runs before the constructors
    // at the start. Of a plug-in, this thread is in `dlopen`: a program that changes the
    // environment meanwhile races with every getenv of the C library, too.
    unsafe { begin(environ) }
}

#[cfg(all(target_os = "linux", not(target_env = "gnu"), not(any(miri, shuttle))))]
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_start;

#[cfg(not(all(target_os = "linux", not(any(miri, shuttle)))))]
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
