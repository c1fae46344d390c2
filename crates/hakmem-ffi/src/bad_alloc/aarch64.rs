//! The handler loop for aarch64: see `x86_64`.

use super::personality::{caught, personality};
use super::{handler, retry, thrower};
use core::arch::naked_asm;
use core::ffi::c_void;

/// Saves the arguments, and runs the loop. Continues behind it with a block in x0, or at label 3 if
/// there is no handler.
macro_rules! try_again {
    () => {
        concat!(
            "stp x29, x30, [sp, #-32]!\n",
            ".cfi_def_cfa_offset 32\n",
            ".cfi_offset x29, -32\n",
            ".cfi_offset x30, -24\n",
            "mov x29, sp\n",
            "stp x19, x20, [sp, #16]\n",
            ".cfi_offset x19, -16\n",
            ".cfi_offset x20, -8\n",
            "mov x19, x0\n",
            "mov x20, x1\n",
            "2:\n",
            "bl {handler}\n",
            "cbz x0, 3f\n",
            "blr x0\n",
            "mov x0, x19\n",
            "mov x1, x20\n",
            "bl {retry}\n",
            "cbz x0, 2b\n",
        )
    };
}

/// Restores the registers that `try_again` saved, and returns.
macro_rules! leave {
    () => {
        concat!(
            "ldp x19, x20, [sp, #16]\n",
            ".cfi_restore x19\n",
            ".cfi_restore x20\n",
            "ldp x29, x30, [sp], #32\n",
            ".cfi_restore x29\n",
            ".cfi_restore x30\n",
            ".cfi_def_cfa_offset 0\n",
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
        "bl {thrower}",
        "blr x0", // does not return; not a jump, so that backtraces show who threw
        "brk #1",
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
        "3:", // x0 is the result: the block, or NULL for want of a handler
        leave!(),
        ".cfi_endproc",
        personality = sym personality,
        handler = sym handler,
        retry = sym retry,
    )
}

/// Where the unwinder continues after a handler's exception: in the frame of `new_or_null`, with
/// the exception in x0.
///
/// # Safety
/// Only the unwinder jumps here, with the frame of `new_or_null`.
#[cold]
#[unsafe(naked)]
pub unsafe extern "C" fn landing_pad() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 32", // the frame as new_or_null left it
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        ".cfi_offset x19, -16",
        ".cfi_offset x20, -8",
        "bl {caught}",
        "mov x0, xzr",
        leave!(),
        ".cfi_endproc",
        caught = sym caught,
    )
}
