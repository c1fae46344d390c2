//! Signal handlers that write reports: how they begin and end.
//!
//! A signal may interrupt a thread in a system call that is a cancellation point. While such a call
//! waits, glibc lets a request to cancel the thread act at any instruction: it unwinds the stack
//! from there. No frame of hakmem may be on the stack then.
//!
//! Rules
//! 1. The kernel blocks all signals before the handler's first instruction. These include the two
//!    that libc leaves out of each set: by one of them it asks a thread to act on a request.
//! 2. Cancellation is disabled until the handler's last instruction. This is a jump to libc's
//!    function that restores it. So a request that came meanwhile unwinds from that function to the
//!    code that was interrupted.
//! 3. Such an unwind skips the return of the handler, which would restore the signal mask. So the
//!    handler restores it before the jump.

use super::stack::on_own_stack;
use super::{cancel, errno, out};
use crate::os;
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
    // SAFETY: all zero bytes are a valid action. `Reports` says that the handler does only what is
    // async-signal-safe. SA_SIGINFO: the system calls it with the three arguments of its type.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = entry::<R> as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(signal, action, core::ptr::null_mut());
    }
    os::block_all_in_handler(signal); // Rule 1.
}

/// The signal handler. It needs no stack at its last instruction (rule 2).
#[cfg(not(miri))]
#[unsafe(naked)]
unsafe extern "C" fn entry<R: Reports>(_: c_int, _: *mut siginfo_t, _: *mut ucontext_t) {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbx, -16",
        "mov rbx, rdx",
        "call {inner}",
        // The mask of the interrupted code.
        "lea rsi, [rbx + {mask}]",
        "mov ebx, eax",
        "mov edi, {set}",
        "xor edx, edx",
        "mov r10d, {bytes}",
        "mov eax, {number}",
        "syscall",
        "mov edi, ebx",
        "xor esi, esi",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "jmp {restore}",
        ".cfi_endproc",
        inner = sym handled::<R>,
        mask = const core::mem::offset_of!(ucontext_t, uc_sigmask),
        set = const libc::SIG_SETMASK,
        bytes = const size_of::<os::SignalMask>(),
        number = const libc::SYS_rt_sigprocmask,
        restore = sym cancel::pthread_setcancelstate,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "str x19, [sp, #16]",
        ".cfi_offset x19, -16",
        "mov x19, x2",
        "bl {inner}",
        // The mask of the interrupted code.
        "add x1, x19, #{mask}",
        "mov w19, w0",
        "mov w0, #{set}",
        "mov x2, xzr",
        "mov x3, #{bytes}",
        "mov x8, #{number}",
        "svc #0",
        "mov w0, w19",
        "mov x1, xzr",
        "ldr x19, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x19",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "b {restore}",
        ".cfi_endproc",
        inner = sym handled::<R>,
        mask = const core::mem::offset_of!(ucontext_t, uc_sigmask),
        set = const libc::SIG_SETMASK,
        bytes = const size_of::<os::SignalMask>(),
        number = const libc::SYS_rt_sigprocmask,
        restore = sym cancel::pthread_setcancelstate,
    );
}

/// The same for Miri, which reads no assembly and has no signals.
#[cfg(miri)]
unsafe extern "C" fn entry<R: Reports>(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut ucontext_t,
) {
    cancel::restore(handled::<R>(signal, info, context));
}

/// Writes the report. Returns whether the thread could be cancelled before (rule 2).
extern "C" fn handled<R: Reports>(_: c_int, _: *mut siginfo_t, context: *mut ucontext_t) -> c_int {
    let before = cancel::disable();
    errno::preserved(|| {
        on_own_stack(R::write);
        // SAFETY: the system gave this handler `context`, which is valid until the handler returns.
        unsafe { out::leave_blocked(context) };
    });
    before
}
