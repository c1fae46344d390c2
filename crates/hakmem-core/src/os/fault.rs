//! Faults: a handler for accesses to memory without access. Others go to the program's handler that
//! was there before, or take their course.
//!
//! Rule: `BEFORE` is written before the handler that reads it is installed, and never again.

use super::at;
use crate::base::sync::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::plain::{AtomicBool, AtomicPtr};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr::{null, null_mut};

/// Registers of interrupted code.
#[derive(Debug, Clone, Copy)]
pub struct Registers {
    /// The address of the instruction.
    pub pc: usize,
    /// The stack pointer.
    pub stack: usize,
    /// The frame pointer.
    pub frame: usize,
    /// The register with the return address of a function that has not saved it. 0 on x86-64, which
    /// has the address on the stack.
    pub link: usize,
}

/// An access that the system refused.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// The address that was accessed.
    pub address: usize,
    /// Those of the code that did it.
    pub registers: Registers,
}

/// True: the access can be repeated.
type Judge = fn(&Fault) -> bool;

/// The signals of such accesses.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

struct Before(UnsafeCell<MaybeUninit<[libc::sigaction; 2]>>);
// SAFETY: written once, before anybody reads it (rule).
unsafe impl Sync for Before {}
static BEFORE: Before = Before(UnsafeCell::new(MaybeUninit::uninit()));
static INSTALLED: AtomicBool = AtomicBool::new(false);
static JUDGE: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Calls `judge` at each fault from now on. The first call counts. A handler that the program
/// installs later replaces this one.
pub fn on_fault(judge: Judge) {
    if INSTALLED.swap(true, Relaxed) {
        return;
    }
    JUDGE.store(judge as *mut (), Release);
    // SAFETY: errno is a variable of the thread. All zero bytes are a valid action. The pointers
    // lead to actions: to those of `BEFORE`, which nobody else reads or writes before the handler
    // is there (rule). The handler is async-signal-safe, and SA_SIGINFO gives it its three
    // arguments.
    unsafe {
        let errno = *libc::__errno_location();
        let before = (*BEFORE.0.get()).as_mut_ptr().cast::<libc::sigaction>();
        for (i, signal) in SIGNALS.into_iter().enumerate() {
            libc::sigaction(signal, null(), before.add(i));
        }
        for (i, signal) in SIGNALS.into_iter().enumerate() {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = caught as *const () as libc::sighandler_t;
            // The program's handler will run inside this one: with the signals blocked that it
            // chose. A handler that leaves by longjmp leaves the mask as it is.
            let chosen = *before.add(i);
            let kept = chosen.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART);
            // On the stack that it chose, too: the other one may be too short for it.
            let on_stack = if has_handler(&chosen) { chosen.sa_flags } else { libc::SA_ONSTACK };
            action.sa_flags = libc::SA_SIGINFO | on_stack & libc::SA_ONSTACK | kept;
            action.sa_mask = chosen.sa_mask;
            libc::sigaction(signal, &raw const action, null_mut());
        }
        *libc::__errno_location() = errno;
    }
}

/// True if the program has a handler for the signal.
fn has_handler(action: &libc::sigaction) -> bool {
    !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

/// The signal handler.
extern "C" fn caught(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system calls the handler with a valid `info` and a context of this type. errno is
    // a variable of the thread. `JUDGE` has a function of this type since before the handler was
    // installed.
    let (is_done, is_sent) = unsafe {
        let errno = *libc::__errno_location();
        let registers = super::processor::interrupted(&*context.cast::<libc::ucontext_t>());
        let fault = Fault { address: (*info).si_addr().addr(), registers };
        let is_sent = (*info).si_code <= 0; // By a process, and no fault at all.
        let is_done = !is_sent && transmute::<*mut (), Judge>(JUDGE.load(Acquire))(&fault);
        *libc::__errno_location() = errno;
        (is_done, is_sent)
    };
    // SAFETY: they are the arguments of this handler.
    unsafe {
        if !is_done {
            pass_on(signal, info, context, is_sent);
        }
        #[cfg(not(miri))]
        super::quietly::leave_blocked(context.cast());
    }
}

/// Gives a signal to the handler that was there before. Without one, the signal gets its usual
/// effect: a fault happens again when this handler returns, and a signal that was sent is sent
/// again, or ignored if the program ignores it.
///
/// # Safety
/// The arguments are those of the signal's handler.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, is_sent: bool) {
    let i = usize::from(signal == SIGNALS[1]);
    // SAFETY: it was written before the handler was installed (rule). A handler with SA_SIGINFO has
    // three arguments, any other has one.
    unsafe {
        let before = *(*BEFORE.0.get()).as_ptr().cast::<libc::sigaction>().add(i);
        if is_sent && before.sa_sigaction == libc::SIG_IGN {
            return;
        }
        let has_handler = has_handler(&before);
        // A handler that is called once, too, leaves the usual effect behind.
        if !has_handler || before.sa_flags & libc::SA_RESETHAND != 0 {
            let usual: libc::sigaction = core::mem::zeroed();
            libc::sigaction(signal, &raw const usual, null_mut());
        }
        if !has_handler {
            if is_sent {
                libc::raise(signal);
            }
        } else if before.sa_flags & libc::SA_SIGINFO != 0 {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            transmute::<*mut u8, Handler>(at(before.sa_sigaction))(signal, info, context);
        } else {
            transmute::<*mut u8, extern "C" fn(c_int)>(at(before.sa_sigaction))(signal);
        }
    }
}
