//! The functions that limit the address space: `setrlimit` and `prlimit`.
//!
//! Reserved address space counts against RLIMIT_AS. A limit below it would leave the program
//! nothing to map. So these functions first give back what is reserved and unused. In every other
//! respect they behave as the C library's.

use crate::errno;
use core::ffi::c_int;
use core::ptr::null_mut;
use hakmem_core::c;
use libc::{RLIMIT_AS, pid_t, rlimit};

// On 64-bit systems `setrlimit64` and `prlimit64` take the same types as the other two.
macro_rules! limits {
    ($setrlimit:ident, $prlimit:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $setrlimit(resource: c_int, limit: *const rlimit) -> c_int {
            // SAFETY: the caller keeps the contract of setrlimit: `limit` is NULL or readable.
            // `set` accepts NULL as the old limit.
            unsafe { set(0, resource, limit, null_mut()) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $prlimit(
            pid: pid_t,
            resource: c_int,
            new: *const rlimit,
            old: *mut rlimit,
        ) -> c_int {
            // SAFETY: the caller keeps the contract of prlimit: `new` is NULL or readable, `old` is
            // NULL or writable.
            unsafe { set(pid, resource, new, old) }
        }
    };
}
limits!(setrlimit, prlimit);
limits!(setrlimit64, prlimit64);

/// `prlimit`, with room made for the new limit first.
///
/// # Safety
/// `old` is NULL or points to a writable `rlimit`, which need not be aligned. If no limit is
/// readable at `new`, the call fails with EFAULT; in a process with a filter it may fault.
unsafe fn set(pid: pid_t, resource: c_int, new: *const rlimit, old: *mut rlimit) -> c_int {
    // SAFETY: by this function's contract the kernel may write `old`. It checks all other
    // arguments, and whether `new` is readable. `syscall` sets errno.
    let call = || unsafe { libc::syscall(libc::SYS_prlimit64, pid, resource, new, old) as c_int };
    // SAFETY: getpid has no preconditions.
    let own = || pid == 0 || pid == unsafe { libc::getpid() };
    if resource == RLIMIT_AS as c_int && own() && is_readable(new) {
        // SAFETY: the kernel has just read the limit there, or the caller says that it is readable.
        // The read needs no alignment.
        let wanted = unsafe { new.read_unaligned() };
        let limit = usize::try_from(wanted.rlim_cur).unwrap_or(usize::MAX);
        // A child of vfork has its parent's memory, and a limit of its own.
        let fits = wanted.rlim_cur <= wanted.rlim_max
            && limit < c::address_limit()
            && (c::is_filtered() || !c::in_shared_memory());
        if fits {
            let Some(now) = raised(&wanted) else {
                return -1;
            };
            let done = c::fit_address_limit(limit, call);
            if done == 0 && !old.is_null() {
                // SAFETY: `old` is not NULL, so the caller says that it is writable.
                unsafe { old.write_unaligned(now) };
            }
            return done;
        }
    }
    call()
}

/// True if a limit can be read at this address: the kernel reads it before it finds that there is
/// no such resource. Leaves errno alone. A filter may not allow that call: then the caller is
/// believed.
fn is_readable(limit: *const rlimit) -> bool {
    const NO_RESOURCE: c_int = -1;
    let none: *mut rlimit = null_mut();
    let ask = || {
        // SAFETY: the kernel reads a limit at any address, or refuses. There is no such resource,
        // so nothing changes.
        unsafe { libc::syscall(libc::SYS_prlimit64, 0, NO_RESOURCE, limit, none) };
        errno::Reason::last().0 != libc::EFAULT
    };
    !limit.is_null() && (c::is_filtered() || errno::preserved(ask))
}

/// Raises the hard limit to the wanted one, if that is above the present one: only a privileged
/// process may, and nothing is given back for one that may not. Returns the limits before. None:
/// the kernel refused, and errno says why.
fn raised(wanted: &rlimit) -> Option<rlimit> {
    let ask = |new: *const rlimit, old: *mut rlimit| {
        // SAFETY: both are NULL, or lead to a live limit of the caller's.
        unsafe { libc::syscall(libc::SYS_prlimit64, 0, RLIMIT_AS, new, old) == 0 }
    };
    let mut now = rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    if !ask(core::ptr::null(), &raw mut now) {
        return None;
    }
    let higher = rlimit {
        rlim_cur: now.rlim_cur,
        rlim_max: wanted.rlim_max,
    };
    (wanted.rlim_max <= now.rlim_max || ask(&raw const higher, null_mut())).then_some(now)
}
