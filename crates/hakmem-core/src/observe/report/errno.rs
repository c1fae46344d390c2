//! Functions that set errno, restore it, and say what it means.

use core::ffi::c_int;
use core::fmt;

/// The address of the calling thread's errno, valid as long as the thread.
fn slot() -> *mut c_int {
    // SAFETY: the function has no preconditions.
    unsafe { libc::__errno_location() }
}

/// Sets errno.
#[cold]
pub fn set(value: c_int) {
    // SAFETY: `slot` gives the calling thread's own errno, which is writable.
    unsafe { *slot() = value }
}

/// Sets errno and returns NULL.
#[cold]
pub fn fail<T>(value: c_int) -> *mut T {
    set(value);
    core::ptr::null_mut()
}

/// Runs `f` and restores errno.
pub fn preserved<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: `slot` gives the calling thread's own errno, which is readable.
    let before = unsafe { *slot() };
    let result = f();
    // SAFETY: `slot` gives the calling thread's own errno, which is writable.
    unsafe { *slot() = before };
    result
}

/// Why a system call failed.
#[derive(Clone, Copy)]
pub struct Reason(pub c_int);

impl Reason {
    /// The reason of the call that has just failed in this thread.
    pub fn last() -> Self {
        // SAFETY: `slot` gives the calling thread's own errno, which is readable.
        Self(unsafe { *slot() })
    }
}

/// Says the reason in the C library's words, without a call of the library. Rare errors are shown
/// by their number.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            libc::EACCES => "Permission denied",
            // `out` has waited a second for a reader.
            libc::EAGAIN => "nobody reads it",
            libc::EBADF => "Bad file descriptor",
            libc::EDQUOT => "Disk quota exceeded",
            libc::EFBIG => "File too large",
            libc::EINVAL => "Invalid argument",
            libc::EIO => "Input/output error",
            libc::EISDIR => "Is a directory",
            libc::ELOOP => "Too many levels of symbolic links",
            libc::EMFILE => "Too many open files",
            libc::ENAMETOOLONG => "File name too long",
            libc::ENFILE => "Too many open files in system",
            libc::ENOENT => "No such file or directory",
            libc::ENOMEM => "Cannot allocate memory",
            libc::ENOSPC => "No space left on device",
            libc::ENOTDIR => "Not a directory",
            libc::ENXIO => "No such device or address",
            libc::EPERM => "Operation not permitted",
            libc::EPIPE => "Broken pipe",
            libc::EROFS => "Read-only file system",
            other => return write!(f, "error {other}"),
        })
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    /// For all errors: those that the table has, and those that it shows by number. The words are
    /// those of glibc.
    #[test]
    fn reasons_are_in_the_c_librarys_words() {
        let mut known = 0;
        for number in (1..134).filter(|&number| number != libc::EAGAIN) {
            let ours = Reason(number).to_string();
            // SAFETY: strerror returns a C string. It stays until the next call, and no other test
            // calls it.
            let theirs = unsafe { core::ffi::CStr::from_ptr(libc::strerror(number)) };
            if ours != std::format!("error {number}") {
                assert_eq!(ours, theirs.to_str().unwrap());
                known += 1;
            }
        }
        assert_eq!(known, 19);
    }
}
