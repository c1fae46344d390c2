//! Calls for files and signals that are no cancellation points and leave errno alone. A report may
//! be written in the middle of a call of the program that is a cancellation point.

use super::SignalMask;
use super::linux::syscall;
use core::ffi::{CStr, c_int};

/// What a call returned, or its error number.
fn checked(result: isize) -> Result<usize, c_int> {
    usize::try_from(result).map_err(|_| -result as c_int)
}

/// Opens a file. A new one has the rights 0600.
pub fn open(name: &CStr, flags: c_int) -> Result<c_int, c_int> {
    const HERE: usize = libc::AT_FDCWD as isize as usize;
    let name = name.as_ptr().expose_provenance();
    checked(syscall(libc::SYS_openat, [HERE, name, flags as usize, 0o600, 0, 0]))
        .map(|fd| fd as c_int)
}

/// Closes a descriptor. The caller has it, and nobody uses it any more.
pub fn close(fd: c_int) {
    syscall(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
}

/// Writes a part of `bytes`, or all. Returns how much.
pub fn write_part(fd: c_int, bytes: &[u8]) -> Result<usize, c_int> {
    let (at, len) = (bytes.as_ptr().expose_provenance(), bytes.len());
    checked(syscall(libc::SYS_write, [fd as usize, at, len, 0, 0, 0]))
}

/// Waits until a descriptor takes more bytes, a second at most. True: it does.
pub fn takes_more(fd: c_int) -> bool {
    const MS: u32 = 1000;
    let begun = super::now_ms();
    loop {
        let left = MS.saturating_sub(super::age(super::now_ms(), begun));
        let result = poll(fd, left);
        if result != -(libc::EINTR as isize) || left == 0 {
            return result == 1;
        }
    }
}

/// Waits until a descriptor takes more bytes, `ms` milliseconds at most. By the call that libc's
/// poll makes: not all processors have the first one.
fn poll(fd: c_int, ms: u32) -> isize {
    let mut wanted = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    let at = (&raw mut wanted).expose_provenance();
    #[cfg(target_arch = "x86_64")]
    return syscall(libc::SYS_poll, [at, 1, ms as usize, 0, 0, 0]);
    #[cfg(not(target_arch = "x86_64"))]
    {
        // The system writes what is left of it.
        let mut time = [ms as usize / 1000, ms as usize % 1000 * 1_000_000];
        let time = (&raw mut time).expose_provenance();
        syscall(libc::SYS_ppoll, [at, 1, time, 0, 0, 0])
    }
}

/// Takes those of `signals` that are pending, and drops them. The caller has blocked them.
pub fn drop_pending(signals: SignalMask) {
    let no_time = [0_usize; 2];
    let set = (&raw const signals).expose_provenance();
    let time = (&raw const no_time).expose_provenance();
    let take = || syscall(libc::SYS_rt_sigtimedwait, [set, 0, time, size_of::<SignalMask>(), 0, 0]);
    while take() > 0 {}
}

/// The signals that are pending.
pub fn pending_signals() -> SignalMask {
    let mut pending: SignalMask = 0;
    let at = (&raw mut pending).expose_provenance();
    syscall(libc::SYS_rt_sigpending, [at, size_of::<SignalMask>(), 0, 0, 0, 0]);
    pending
}

/// Blocks `signals` for the calling thread. Returns the set that was blocked before, for
/// `restore_signals`. libc's function would restore it without the signals that libc keeps for
/// itself, and so unblock them.
pub fn block_too(signals: SignalMask) -> SignalMask {
    let mut old: SignalMask = 0;
    let to = (&raw mut old).expose_provenance();
    let new = (&raw const signals).expose_provenance();
    let how = libc::SIG_BLOCK as usize;
    syscall(libc::SYS_rt_sigprocmask, [how, new, to, size_of::<SignalMask>(), 0, 0]);
    old
}
