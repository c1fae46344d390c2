//! The kernel's own clock, from the library that the kernel maps into every process (vDSO).
//!
//! The C library's `clock_gettime` will not do. Another library may take that name: it may make the
//! time stand still or jump (libfaketime), it may allocate, and it may need thread-local storage,
//! which the scavenger does not have.

use super::image::find;
use super::linux::{at, raw};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicUsize;
use core::ffi::{CStr, c_int};

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

const NAMES: [&CStr; 2] = [c"__vdso_clock_gettime", c"__kernel_clock_gettime"];

/// The address of the function, or `UNKNOWN` or `NONE`.
#[unsafe(link_section = ".data.hakmem")]
static FUNCTION: AtomicUsize = AtomicUsize::new(UNKNOWN);
const UNKNOWN: usize = 0;
/// The process has no such function, as under valgrind.
const NONE: usize = 1;

/// The time of a clock that cannot fail: one of the monotonic ones.
pub(super) fn clock(id: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let function = match FUNCTION.load(Relaxed) {
        UNKNOWN => look_up(),
        known => known,
    };
    if function != NONE {
        // SAFETY: `find` took the address from the kernel's image, which stays mapped. The function
        // of that name has this type on every architecture. It writes one timespec.
        let failed = unsafe {
            let function = core::mem::transmute::<*const u8, ClockGettime>(at(function));
            function(id, &raw mut time)
        };
        if failed == 0 {
            return time;
        }
    }
    raw(libc::SYS_clock_gettime, [id as usize, (&raw mut time).expose_provenance(), 0, 0, 0, 0]);
    time
}

#[cold]
fn look_up() -> usize {
    // SAFETY: any key may be asked for. The answer comes from the auxiliary vector, which stays.
    // errno is a variable of the thread. Without a vDSO libc sets it.
    let image = unsafe {
        let errno = *libc::__errno_location();
        let image = libc::getauxval(libc::AT_SYSINFO_EHDR) as usize;
        *libc::__errno_location() = errno;
        image
    };
    // SAFETY: the kernel says that its image lies there. It is a whole ELF file of one
    // segment, and stays mapped.
    let function = if image == 0 { None } else { unsafe { find(image, &NAMES) } };
    let function = function.unwrap_or(NONE);
    FUNCTION.store(function, Relaxed);
    function
}
