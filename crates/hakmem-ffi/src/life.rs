//! The start of the library in a process.
//!
//! The core has the rest: it reads the environment's options, and reports at the end of the
//! process.

use crate::{bound, next};
use core::ffi::{c_char, c_int};
use hakmem_core::c;
use hakmem_core::report::life;

/// glibc passes the environment to constructors.
#[cfg(target_env = "gnu")]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

/// Without `HAKMEM_…` variables this makes no system call. In a program with rights that its user
/// does not have, no variable acts, neither here nor in the core.
#[cfg(target_env = "gnu")]
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn start(_argc: c_int, _argv: *const *const c_char, envp: *const *const c_char) {
    // SAFETY: glibc passes a valid environment to every constructor, and nothing changes it before
    // all constructors have run.
    unsafe { begin(envp) }
}

/// Other C libraries have set `environ` before the first constructor.
#[cfg(not(target_env = "gnu"))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[cfg(not(target_env = "gnu"))]
extern "C" fn start() {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library has set `environ`, and nothing changes it before all constructors have
    // run.
    unsafe { begin(environ) }
}

/// # Safety
/// `envp` is a valid environment, and nothing changes it before all constructors have run.
#[inline(always)]
unsafe fn begin(envp: *const *const c_char) {
    bound::look_in_front();
    c::on_foreign(next::find);
    c::announce_rights();
    let envp = if c::trusts_environment() {
        envp
    } else {
        core::ptr::null()
    };
    // SAFETY: the caller promises the same of `envp`. NULL stands for none.
    unsafe {
        c::start(envp);
        life::start(envp);
    }
    #[cfg(feature = "hardened")]
    if !crate::operators::has_own_operators() {
        c::keep_operators_apart();
    }
}

/// The constructor of a Rust program with the allocator inside calls this if the library is in the
/// process, too. From then on only the program's copy reports. Returns 1 if the library had already
/// written the first line of a report, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn __hakmem_leave_reports() -> c_int {
    // SAFETY: the core of the program's copy calls this, in the program's constructor. No other
    // thread calls functions of `life` then.
    c_int::from(unsafe { life::leave() })
}
