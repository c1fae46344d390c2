//! The handler loop for x86-64.
//!
//! ```text
//! loop {
//!     handler = get_new_handler()
//!     if !handler { throw bad_alloc, or return NULL }
//!     handler()                        // may throw
//!     p = retry(size, kind)
//!     if p { return p }
//! }
//! ```
//!
//! 1. In the throwing form an exception from the handler passes through: the frame has unwind
//!    tables and nothing to clean up.
//! 2. In the nothrow form `personality` stops the exception in this frame, and the loop returns
//!    NULL. It checks no type: a handler may only throw bad_alloc and types derived from it
//!    ([new.handler]).

use super::{Function, find, find_cxx, handler, no_runtime, retry, thrower};
use core::arch::naked_asm;
use core::ffi::{CStr, c_int, c_void};

/// Saves the arguments, and runs the loop. Continues behind it with a block in rax, or at label 3
/// if there is no handler.
macro_rules! try_again {
    () => {
        concat!(
            "push rbx\n",
            ".cfi_adjust_cfa_offset 8\n",
            ".cfi_rel_offset rbx, 0\n",
            "push r14\n",
            ".cfi_adjust_cfa_offset 8\n",
            ".cfi_rel_offset r14, 0\n",
            "push rsi\n", // for the stack's alignment
            ".cfi_adjust_cfa_offset 8\n",
            "mov rbx, rdi\n",
            "mov r14, rsi\n",
            "2:\n",
            "call {handler}\n",
            "test rax, rax\n",
            "jz 3f\n",
            "call rax\n",
            "mov rdi, rbx\n",
            "mov rsi, r14\n",
            "call {retry}\n",
            "test rax, rax\n",
            "jz 2b\n",
        )
    };
}

/// Restores the registers that `try_again` saved, and returns.
macro_rules! leave {
    () => {
        concat!(
            "add rsp, 8\n",
            ".cfi_adjust_cfa_offset -8\n",
            "pop r14\n",
            ".cfi_adjust_cfa_offset -8\n",
            ".cfi_restore r14\n",
            "pop rbx\n",
            ".cfi_adjust_cfa_offset -8\n",
            ".cfi_restore rbx\n",
            "ret\n",
        )
    };
}

/// The failure path of `operator new`: `kind` says of which form.
///
/// # Safety
/// The caller is C++, or can take C++ exceptions. The frames in between have nothing to clean up.
#[cold]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn new_or_throw(size: usize, kind: usize) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        try_again!(),
        ".cfi_remember_state",
        leave!(),
        "3:",
        ".cfi_restore_state",
        "call {thrower}",
        "call rax", // does not return; not a jump, so that backtraces show who threw
        "ud2",
        ".cfi_endproc",
        handler = sym handler,
        retry = sym retry,
        thrower = sym thrower,
    )
}

/// The failure path of the nothrow forms.
///
/// # Safety
/// The caller is C++, or can take a forced unwind (cancellation, thread exit) from the handler. The
/// frames in between have nothing to clean up.
#[cold]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn new_or_null(size: usize, kind: usize) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}", // pc-relative in four bytes: it is in this library
        try_again!(), // a handler may end at landing_pad
        "3:", // rax is the result: the block, or NULL for want of a handler
        leave!(),
        ".cfi_endproc",
        personality = sym personality,
        handler = sym handler,
        retry = sym retry,
    )
}

/// Where the unwinder continues after a handler's exception: in the frame of `new_or_null`, with
/// the exception in rax.
///
/// # Safety
/// Only the unwinder jumps here, with the frame of `new_or_null`.
#[cold]
#[unsafe(naked)]
unsafe extern "C" fn landing_pad() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 32", // the frame as new_or_null left it
        ".cfi_offset rbx, -16",
        ".cfi_offset r14, -24",
        "mov rdi, rax",
        "call {caught}",
        "xor eax, eax",
        leave!(),
        ".cfi_endproc",
        caught = sym caught,
    )
}

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

/// Stops C++ exceptions in the frame of `new_or_null` and lets cancellation and thread exit
/// through.
#[cold]
unsafe extern "C" fn personality(
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
    const RAX: c_int = 0;
    // SAFETY: both symbols were found, and have these types by the ABI. `context` is the unwinder's
    // for this call, and `landing_pad` continues the frame that it describes.
    unsafe {
        use core::mem::transmute;
        transmute::<Function, extern "C" fn(*mut c_void, c_int, *mut c_void)>(set_gr)(
            context, RAX, exception,
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
extern "C" fn caught(exception: *mut c_void) {
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
