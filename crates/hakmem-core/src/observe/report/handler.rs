//! Signal handlers that write reports.
//!
//! A signal may interrupt a thread in a system call that is a cancellation point. While such a call
//! waits, a request to cancel the thread may act at any instruction (in glibc before 2.41): it
//! unwinds the stack from there. No frame of hakmem may be on the stack then.
//!
//! Rules
//! 1. Until the handler returns, the kernel blocks the signals of `sigfillset`, and the one by
//!    which libc asks a thread to act on a request. It then comes when the thread is in the
//!    interrupted call again. libc's other signals stay open: by them all threads change the
//!    process's rights, and the thread that asks for that waits for the others.
//! 2. Reports make no call of libc that is a cancellation point, and none that changes whether the
//!    thread can be cancelled: either would act on a request at once (`os::files`).

use super::errno;
use crate::os::{self, on_own_stack};
use core::ffi::c_int;
use libc::{siginfo_t, ucontext_t};

/// What a handler writes.
///
/// # Safety
/// [`Reports::write`] is async-signal-safe: the signal may have interrupted any code. So it waits
/// for no lock and allocates nothing.
pub unsafe trait Reports {
    /// Writes it.
    fn write();
}

/// The signal by which libc asks a thread to act on a request to cancel it. No function of libc
/// puts it into a set.
const CANCEL: c_int = if cfg!(target_env = "musl") { 33 } else { 32 };

/// Writes `R` at each `signal` from now on. A program that installs its own handler later replaces
/// this one.
pub fn catch<R: Reports>(signal: c_int) {
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zero bytes are a valid action. A set of signals begins with the kernel's set.
    // `R::write` is async-signal-safe. SA_SIGINFO: the system calls the handler with the three
    // arguments of its type.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handle::<R> as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&mut action.sa_mask); // Rule 1.
        *(&raw mut action.sa_mask).cast::<os::SignalMask>() |= 1 << (CANCEL - 1);
        libc::sigaction(signal, action, core::ptr::null_mut());
    }
}

/// The signal handler.
extern "C" fn handle<R: Reports>(_: c_int, _: *mut siginfo_t, context: *mut ucontext_t) {
    errno::preserved(|| {
        on_own_stack(R::write);
        // SAFETY: the system gave this handler `context`, which is valid until the handler returns.
        unsafe { os::leave_blocked(context) };
    });
}
