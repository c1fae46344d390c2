//! Writes that the program did not ask for. So neither a pipe without a reader nor a limit on a
//! file's size ends it.
//!
//! Rules
//! 1. The kernel sends the signal of a failed write to the thread that writes. So the thread blocks
//!    these signals, and drops what came. A signal that was pending before is the program's.
//! 2. A filter for system calls may end the process for the question what is pending. So under a
//!    filter that the process made, a signal that came stays, and stays blocked.

use super::SignalMask;
use super::files::{block_too, drop_pending, pending_signals, write_part};
use super::linux::restore_signals;
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicBool;
use core::ffi::c_int;

/// The signals that the kernel sends to the thread when its write fails.
const SIGNALS: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// The signals in a mask of the kernel's.
fn mask() -> SignalMask {
    SIGNALS.into_iter().fold(0, |all, signal| all | 1 << (signal - 1))
}

/// True after a failed write under a filter: `SIGNALS` stayed blocked, and may be pending.
static LEFT_BLOCKED: AtomicBool = AtomicBool::new(false);

/// Writes all of `bytes`, in one system call if the descriptor takes as much. The number of the
/// error if not all was written.
#[cfg(feature = "reports")]
pub fn write_quietly(fd: c_int, bytes: &[u8]) -> Result<(), c_int> {
    if super::is_filtered() {
        blocking_signals(|| write_rest(fd, bytes, |_| false))
    } else {
        without_signals(|| write_rest(fd, bytes, super::files::takes_more))
    }
}

/// As `write_quietly`, but it gives up if the descriptor says that it takes nothing now, and makes
/// fewer kinds of system calls where the process may have a filter: a line may come from malloc in
/// any process. A descriptor that is not non-blocking waits for its reader.
pub fn write_now(fd: c_int, bytes: &[u8]) -> Result<(), c_int> {
    let write = || write_rest(fd, bytes, |_| false);
    if super::is_careful() { blocking_signals(write) } else { without_signals(write) }
}

/// Writes what `rest` has. If the descriptor takes nothing now, `waits` says whether it does later.
fn write_rest(fd: c_int, mut rest: &[u8], waits: impl Fn(c_int) -> bool) -> Result<(), c_int> {
    while !rest.is_empty() {
        match write_part(fd, rest) {
            Ok(0) => return Err(libc::EIO),
            Ok(n) => rest = &rest[n..],
            Err(libc::EINTR) => {}
            // A write that does not wait by itself is to a pipe or a terminal that `sink` opened
            // so. Its reader may have stopped.
            Err(libc::EAGAIN) if waits(fd) => {}
            Err(number) => return Err(number),
        }
    }
    Ok(())
}

/// Runs `f`. If it makes the kernel send one of `SIGNALS` to this thread, the signal is dropped.
fn without_signals<R>(f: impl FnOnce() -> R) -> R {
    // A signal that is pending already was sent to the program: leave it to the program.
    let ours = mask() & !pending_signals();
    let before = block_too(ours);
    let result = f();
    drop_pending(ours);
    restore_signals(before);
    result
}

/// As [`without_signals`], in a process that may have a filter: it does not ask what was pending
/// before. If `f` fails, that is dropped too, or under a filter that the process made all stays
/// (rule 2).
fn blocking_signals<E>(f: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let before = block_too(mask());
    let done = f();
    if done.is_err() && super::is_filtered() {
        LEFT_BLOCKED.store(true, Relaxed);
        return done;
    }
    if done.is_err() {
        drop_pending(mask());
    }
    restore_signals(before);
    done
}

/// To be called at the end of a signal handler. If a write left signals blocked, they stay blocked
/// in the code that the handler returns to.
///
/// # Safety
/// `context` is the third argument of the signal handler, which has not returned.
pub unsafe fn leave_blocked(context: *mut libc::ucontext_t) {
    if LEFT_BLOCKED.load(Relaxed) {
        for signal in SIGNALS {
            // SAFETY: the caller says that the system gave this context to the handler. The system
            // reads it again only when the handler returns.
            unsafe { libc::sigaddset(&raw mut (*context).uc_sigmask, signal) };
        }
    }
}
