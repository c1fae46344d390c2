//! What stops an exception in the frames of `new_or_null` and `chosen_or_null`: the same on every
//! processor.

use super::handler_loop::landing_pad;
use super::{Function, find, find_cxx, no_runtime};
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

/// Stops C++ exceptions in its frame, and lets cancellation and thread exit through.
#[cold]
pub unsafe extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    if actions & FORCE_UNWIND != 0 || !is_cxx(class) {
        return CONTINUE_UNWIND;
    }
    let (set_gr, set_ip) = (find_unwind(c"_Unwind_SetGR"), find_unwind(c"_Unwind_SetIP"));
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

fn find_unwind(name: &CStr) -> Function {
    find(name, c"libgcc_s.so.1")
}

/// Ends the exception, as an empty `catch (...)` does.
#[cold]
pub extern "C" fn caught(exception: *mut c_void) {
    let (begin, end) = (find_cxx(c"__cxa_begin_catch"), find_cxx(c"__cxa_end_catch"));
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
