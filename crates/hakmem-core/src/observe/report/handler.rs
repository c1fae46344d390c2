//! Signal handlers that write reports.
//!
//! A signal may interrupt a thread in a system call that is a cancellation point. While such a call
//! waits, glibc lets a request to cancel the thread act at any instruction: it unwinds the stack
//! from there. No frame of hakmem may be on the stack then.
//!
//! Rules
//! 1. The kernel blocks all signals until the handler returns. These include the two that
//!    `sigfillset` leaves out: by one of them libc asks a thread to act on a request. It then comes
//!    when the thread is in the interrupted call again.
//! 2. Reports make no call of libc that is a cancellation point, and none that changes whether the
//!    thread can be cancelled: either would act on a request at once (`os::files`).

use super::stack::on_own_stack;
use super::{errno, out};
use core::ffi::c_int;
use libc::{siginfo_t, ucontext_t};

/// What a handler writes.
pub trait Reports {
    /// Writes it. The signal may have interrupted any code. So this waits for no lock and allocates
    /// nothing.
    fn write();
}

/// Writes `R` at each `signal` from now on. A program that installs its own handler later replaces
/// this one.
pub fn catch<R: Reports>(signal: c_int) {
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zero bytes are a valid action, and all bytes are a valid set of signals.
    // `Reports` says that the handler does only what is async-signal-safe. SA_SIGINFO: the system
    // calls it with the three arguments of its type.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handle::<R> as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        (&raw mut action.sa_mask).write_bytes(0xff, 1); // Rule 1.
        libc::sigaction(signal, action, core::ptr::null_mut());
    }
}

/// The signal handler.
extern "C" fn handle<R: Reports>(_: c_int, _: *mut siginfo_t, context: *mut ucontext_t) {
    errno::preserved(|| {
        on_own_stack(R::write);
        // SAFETY: the system gave this handler `context`, which is valid until the handler returns.
        unsafe { out::leave_blocked(context) };
    });
}
