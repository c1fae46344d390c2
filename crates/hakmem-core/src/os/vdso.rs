//! The kernel's own clock, and the node of the calling thread's processor, from the library that
//! the kernel maps into every process (vDSO).
//!
//! The C library's `clock_gettime` will not do. Another library may take that name: it may make the
//! time stand still or jump (libfaketime), it may allocate, and it may need thread-local storage,
//! which the scavenger does not have.

use super::image::find;
use super::linux::{at, raw};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicUsize;
use core::ffi::{CStr, c_int, c_long, c_uint, c_void};
use core::ptr::null_mut;

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
/// The third argument is of no use any more.
type Getcpu = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_void) -> c_long;

const CLOCK_NAMES: [&CStr; 2] = [c"__vdso_clock_gettime", c"__kernel_clock_gettime"];
const NODE_NAMES: [&CStr; 1] = [c"__vdso_getcpu"];

/// The address of the function, or `UNKNOWN` or `NONE`.
#[unsafe(link_section = ".data.hakmem")]
static CLOCK: AtomicUsize = AtomicUsize::new(UNKNOWN);
#[unsafe(link_section = ".data.hakmem")]
static NODE: AtomicUsize = AtomicUsize::new(UNKNOWN);
const UNKNOWN: usize = 0;
/// The process has no such function, as under valgrind.
const NONE: usize = 1;

/// The time of a clock that cannot fail: one of the monotonic ones.
pub(super) fn clock(id: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    if let Some(function) = function(&CLOCK, &CLOCK_NAMES) {
        // SAFETY: `find` took the address from the kernel's image, which stays mapped. The function
        // of that name has this type on every architecture. It writes one timespec.
        let failed = unsafe {
            let function = core::mem::transmute::<*const u8, ClockGettime>(function);
            function(id, &raw mut time)
        };
        if failed == 0 {
            return time;
        }
    }
    raw(libc::SYS_clock_gettime, [id as usize, (&raw mut time).expose_provenance(), 0, 0, 0, 0]);
    time
}

/// The node of memory (NUMA) of the processor that the calling thread is on. 0 if the vDSO has no
/// such function, as on aarch64: a filter for glibc's malloc may end the process for the system
/// call.
pub fn node() -> u32 {
    let (mut processor, mut node): (c_uint, c_uint) = (0, 0);
    if let Some(function) = function(&NODE, &NODE_NAMES) {
        // SAFETY: `find` took the address from the kernel's image, which stays mapped. The function
        // of that name has this type on every architecture. It writes the two numbers.
        unsafe {
            let function = core::mem::transmute::<*const u8, Getcpu>(function);
            function(&raw mut processor, &raw mut node, null_mut());
        }
    }
    node
}

/// The function of one of the names, whose address `known` has once it was looked up. None: the
/// process has none.
#[inline]
fn function(known: &AtomicUsize, names: &[&CStr]) -> Option<*const u8> {
    let address = match known.load(Relaxed) {
        UNKNOWN => look_up(known, names),
        address => address,
    };
    (address != NONE).then(|| at(address).cast_const())
}

#[cold]
#[unsafe(link_section = ".text.hot.hakmem")]
fn look_up(known: &AtomicUsize, names: &[&CStr]) -> usize {
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
    let function = if image == 0 { None } else { unsafe { find(image, names) } };
    let function = function.unwrap_or(NONE);
    known.store(function, Relaxed);
    function
}
