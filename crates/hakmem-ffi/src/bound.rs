//! The `realloc` and `free` of the process: those that the dynamic linker bound the names to.
//!
//! A program may have a malloc of its own, and a library in front of this one may wrap it. Neither
//! need have `reallocarray`, as the C library's calls `realloc` by its name. So must that of a
//! library that replaces the C library's. build.rs keeps the linker from binding the two names
//! within this library.

use core::ffi::c_void;
use core::mem::transmute;

type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// The address in the library's table of addresses. A path to the function would not do: the
/// compiler may take it for the one in this crate.
macro_rules! address {
    ($name:literal) => {{
        let at: *const ();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: reads an entry of the table, which the dynamic linker filled.
        unsafe {
            core::arch::asm!(
                concat!("mov {at}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                at = out(reg) at,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: reads an entry of the table, which the dynamic linker filled.
        unsafe {
            core::arch::asm!(
                concat!("adrp {at}, :got:", $name),
                concat!("ldr {at}, [{at}, :got_lo12:", $name, "]"),
                at = out(reg) at,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        at
    }};
}

/// The process's `realloc`.
pub fn realloc() -> Realloc {
    let at = address!("realloc");
    // SAFETY: a function of that name has this type.
    unsafe { transmute::<*const (), Realloc>(at) }
}

/// The process's `free`.
pub fn free() -> Free {
    let at = address!("free");
    // SAFETY: a function of that name has this type.
    unsafe { transmute::<*const (), Free>(at) }
}
