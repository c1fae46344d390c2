//! The functions that limit the address space. The reservation counts against RLIMIT_AS, so a limit below what is
//! mapped would leave the program nothing to map; hence what is reserved and unused is given back first. In every
//! other respect these are the C library's.

use core::ffi::c_int;
use core::ptr::null_mut;
use hakmem_core::c;
use libc::{RLIMIT_AS, pid_t, rlimit};

// On 64-bit systems the functions with 64 in their names are the others.
macro_rules! limits {
    ($setrlimit:ident, $prlimit:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $setrlimit(resource: c_int, limit: *const rlimit) -> c_int {
            // SAFETY: the C contract.
            unsafe { set(0, resource, limit, null_mut()) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $prlimit(
            pid: pid_t,
            resource: c_int,
            new: *const rlimit,
            old: *mut rlimit,
        ) -> c_int {
            // SAFETY: the C contract.
            unsafe { set(pid, resource, new, old) }
        }
    };
}
limits!(setrlimit, prlimit);
limits!(setrlimit64, prlimit64);

/// # Safety
/// The contract of prlimit.
unsafe fn set(pid: pid_t, resource: c_int, new: *const rlimit, old: *mut rlimit) -> c_int {
    // SAFETY: no preconditions.
    let own = || pid == 0 || pid == unsafe { libc::getpid() };
    if resource == RLIMIT_AS as c_int && !new.is_null() && own() {
        // SAFETY: the C contract. The caller may have aligned it badly.
        let wanted = unsafe { new.read_unaligned() };
        let limit = usize::try_from(wanted.rlim_cur).unwrap_or(usize::MAX);
        if wanted.rlim_cur <= wanted.rlim_max && limit < c::address_limit() {
            c::fit_address_limit(limit);
        }
    }
    // SAFETY: the C contract. The call sets errno.
    unsafe { libc::syscall(libc::SYS_prlimit64, pid, resource, new, old) as c_int }
}
