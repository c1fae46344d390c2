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

use super::personality::{caught, personality};
use super::{handler, retry, thrower};
use core::arch::naked_asm;
use core::ffi::c_void;

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
pub unsafe extern "C" fn landing_pad() {
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
