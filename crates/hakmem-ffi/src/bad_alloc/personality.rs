//! What stops an exception in the frames of `new_or_null` and `chosen_or_null`: the same on every
//! processor.

use super::handler_loop::landing_pad;
use super::{Function, find_cxx, find_for, find_global, find_in, no_runtime};
use core::ffi::{CStr, c_int, c_void};

// The Itanium C++ ABI's exception handling interface, level I.
const FORCE_UNWIND: c_int = 8;
const SEARCH_PHASE: c_int = 1;
const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
const CONTINUE_UNWIND: c_int = 8;

/// Whether an exception class (vendor, language, kind) is one of C++: "GNUCC++\0", "CLNGC++\0", or
/// these with kind 1.
fn is_cxx(class: u64) -> bool {
    (class >> 8) & 0xFF_FFFF == u64::from_be_bytes(*b"\0\0\0\0\0C++")
}

/// Stops C++ exceptions in its frame, and lets cancellation and thread exit through. `context` is
/// of the unwinder that has the code at `caller`, and another one does not know it.
#[cold]
pub unsafe extern "C" fn stop(
    _version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut c_void,
    context: *mut c_void,
    caller: *const c_void,
) -> c_int {
    if actions & FORCE_UNWIND != 0 || !is_cxx(class) {
        return CONTINUE_UNWIND;
    }
    let find = |name| find_unwind(caller, name);
    let (set_gr, set_ip) = (find(c"_Unwind_SetGR"), find(c"_Unwind_SetIP"));
    if set_gr.is_null() || set_ip.is_null() {
        return CONTINUE_UNWIND;
    }
    if actions & SEARCH_PHASE != 0 {
        return HANDLER_FOUND;
    }
    // Register 0 of the tables: rax, or x0 on aarch64. `landing_pad` expects the exception there.
    const FIRST: c_int = 0;
    // SAFETY: both symbols were found, and have these types by the ABI. `context` is the unwinder's
    // for this call, and `landing_pad` continues the frame that it describes.
    unsafe {
        use core::mem::transmute;
        transmute::<Function, extern "C" fn(*mut c_void, c_int, *mut c_void)>(set_gr)(
            context, FIRST, exception,
        );
        transmute::<Function, extern "C" fn(*mut c_void, usize)>(set_ip)(
            context,
            landing_pad as *const () as usize,
        );
    }
    INSTALL_CONTEXT
}

/// A function of the unwinder that has the code at `caller`. If it is a part of the program, of one
/// that is like it.
fn find_unwind(caller: *const c_void, name: &CStr) -> Function {
    // SAFETY: the name is a C string.
    let of_gcc = || unsafe { find_in(c"libgcc_s.so.1".as_ptr(), name) };
    let found = [find_for(caller, name), find_global(name)];
    let found = found.into_iter().find(|p| !p.is_null());
    found.unwrap_or_else(of_gcc)
}

/// Ends the exception, as an empty `catch (...)` does in the code at `caller`.
#[cold]
pub extern "C" fn caught(exception: *mut c_void, caller: *const c_void) {
    let find = |name| find_cxx(caller, name);
    let (begin, end) = (find(c"__cxa_begin_catch"), find(c"__cxa_end_catch"));
    if begin.is_null() || end.is_null() {
        no_runtime();
    }
    // SAFETY: both symbols were found, and have these types by the ABI. `landing_pad` passes the
    // exception that the unwinder stopped there, and nothing else catches it.
    unsafe {
        core::mem::transmute::<Function, extern "C" fn(*mut c_void) -> *mut c_void>(begin)(
            exception,
        );
        core::mem::transmute::<Function, extern "C" fn()>(end)();
    }
}
