//! What this process was given by whoever started it.
//!
//! Before `main`, Rust's runtime ignores SIGPIPE and opens /dev/null in place of closed standard
//! descriptors. Both would be passed on to the program that we run, so they are noted before the
//! runtime starts and given back in the child. Options in the environment are for that program's
//! allocator, too, which says what is wrong with them; this process allocates with another.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

// SAFETY: .init_array holds pointers to functions of the C ABI, called once before main, on the
// only thread. With a number they come before those without, such as the one that reads the
// options.
#[used]
#[unsafe(link_section = ".init_array.00101")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    hakmem_core::options::leave_environment();
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Relaxed);
    for (fd, closed) in (0..).zip(&CLOSED) {
        // SAFETY: F_GETFD only reads; a closed descriptor gives EBADF.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1, Relaxed);
    }
}

/// Whether the signal is ignored by this process now.
pub fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeroes is a valid sigaction, and a NULL new action makes the call read only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Whether this standard descriptor was closed: what is written to it goes nowhere.
pub fn was_closed(fd: usize) -> bool {
    CLOSED[fd].load(Relaxed)
}

/// Gives back what was noted; async-signal-safe, for the child between fork and exec.
pub fn give_back() {
    if SIGPIPE_IGNORED.load(Relaxed) {
        // SAFETY: signal is async-signal-safe, SIG_IGN a valid action.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    }
    for (fd, closed) in (0..).zip(&CLOSED) {
        if closed.load(Relaxed) {
            // SAFETY: the runtime's /dev/null, which nothing in the child uses.
            unsafe { libc::close(fd) };
        }
    }
}
