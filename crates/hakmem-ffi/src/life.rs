//! The start of the library in a process. The core has the rest: what the environment asks for, and the end.

use crate::next;
use core::ffi::{c_char, c_int};
use hakmem_core::c;
use hakmem_core::report::life;

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

/// Without `HAKMEM_…` variables this makes no system call. In a program with rights that its user does not have none of them
/// counts, whoever reads it.
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn start(_argc: c_int, _argv: *const *const c_char, envp: *const *const c_char) {
    c::on_foreign(next::find);
    c::announce_rights();
    let envp = if c::trusts_environment() {
        envp
    } else {
        core::ptr::null()
    };
    // SAFETY: glibc passes the environment to every constructor; it is not changed before they have all run.
    unsafe {
        c::start(envp);
        life::start(envp);
    }
}

/// For the constructor of a Rust program that has the allocator itself, in whose process this library is, too: the program's
/// copy reports. 1 if this one had left its line at the start of a report, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn __hakmem_leave_reports() -> c_int {
    // SAFETY: the core of the program's copy calls this, in the program's constructor. No other
    // thread calls functions of `life` then.
    c_int::from(unsafe { life::leave() })
}
