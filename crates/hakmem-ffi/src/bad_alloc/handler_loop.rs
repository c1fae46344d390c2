//! The handler loop. The instructions are those of the processor, in `arch`.
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
//!    ([new.handler]), and the C++ library's own forms stop all that an operator throws.

use super::personality::{caught, stop};
use super::{arch, handler, retry, thrower};
use core::arch::naked_asm;
use core::ffi::c_void;

/// The failure path of `operator new`: `kind` says of which form.
///
/// # Safety
/// The caller is C++, or can take C++ exceptions. The frames in between have nothing to clean up.
#[cold]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn new_or_throw(size: usize, kind: usize) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        arch::enter!(),
        arch::try_again!(),
        ".cfi_remember_state",
        arch::leave!(),
        "3:",
        ".cfi_restore_state",
        arch::throw!(), // does not return; not a jump, so that backtraces show who threw
        ".cfi_endproc",
        handler = sym handler,
        retry = sym retry,
        thrower = sym thrower,
    )
}

/// Throws at once: no handler can help.
///
/// # Safety
/// As [`new_or_throw`].
#[cold]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn throw() -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        arch::enter!(),
        arch::throw!(),
        ".cfi_endproc",
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
        arch::enter!(),
        arch::try_again!(), // a handler may end at landing_pad
        "3:", // the register of results has the block, or NULL for want of a handler
        arch::leave!(),
        ".cfi_endproc",
        personality = sym personality,
        handler = sym handler,
        retry = sym retry,
    )
}

/// A derived nothrow form in a program that has the operator it calls: `choose` found that one. The
/// registers of arguments are as the form got them. NULL if the operator throws.
///
/// # Safety
/// Only the derived forms jump here. Their caller is C++, or can take a forced unwind.
#[cold]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn chosen_or_null() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        arch::enter!(),
        arch::call_chosen!(), // it may end at landing_pad
        arch::leave!(),
        ".cfi_endproc",
        personality = sym personality,
    )
}

/// Where the unwinder continues after an exception of a handler or of an operator: in the frame of
/// `new_or_null` or `chosen_or_null`, with the exception in the register of results.
///
/// # Safety
/// Only the unwinder jumps here, with such a frame.
#[cold]
#[unsafe(naked)]
pub unsafe extern "C" fn landing_pad() {
    naked_asm!(
        ".cfi_startproc",
        arch::land!(),
        arch::leave!(),
        ".cfi_endproc",
        caught = sym caught,
    )
}

/// The personality routine of these frames: `stop`, with the address that it returns to, which is
/// in the unwinder.
///
/// # Safety
/// Only the unwinder calls this.
#[cold]
#[unsafe(naked)]
unsafe extern "C" fn personality() {
    naked_asm!(".cfi_startproc", arch::pass_caller!(), ".cfi_endproc", stop = sym stop)
}
