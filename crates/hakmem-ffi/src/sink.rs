//! Where the report goes.

use crate::cancel;
use crate::out::{Lossy, Text, stderr_line, write_all};
use crate::settings::{self, PATH};
use core::ffi::{CStr, c_int};
use core::fmt::Write;

/// The stderr that the program was started with. Many programs close theirs before they end, and a number may be
/// another file by then: so a second descriptor is kept, and what is written to must still be the same file.
#[derive(Clone, Copy)]
pub struct Stderr {
    kept: c_int,
    identity: Option<(libc::dev_t, libc::ino_t)>,
}

impl Stderr {
    /// Out of the way of the low numbers that programs count on.
    const LOWEST: c_int = 200;

    pub fn keep() -> Self {
        let identity = identity(libc::STDERR_FILENO);
        // SAFETY: makes a new descriptor, or fails.
        let kept = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, Self::LOWEST) };
        Self { kept, identity }
    }

    pub fn write(self, lines: &[u8]) {
        for fd in [self.kept, libc::STDERR_FILENO] {
            if self.identity.is_some() && identity(fd) == self.identity {
                write_all(fd, lines);
                return;
            }
        }
    }
}

fn identity(fd: c_int) -> Option<(libc::dev_t, libc::ino_t)> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the pointer is valid for the struct to be written.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: fstat filled it in.
    let stat = unsafe { stat.assume_init() };
    Some((stat.st_dev, stat.st_ino))
}

/// A file that lines are appended to, by its absolute path. The path has a mapping of its own: programs overwrite
/// their environment to set a title, and in the library's data it would cost every process a page.
#[derive(Clone, Copy)]
pub struct File(&'static Text<PATH>);

impl File {
    /// None, with a line on stderr that names the option, if the path cannot be kept.
    pub fn keep(option: &str, file: &[u8]) -> Option<Self> {
        // SAFETY: no preconditions.
        if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
            stderr_line(format_args!(
                "{option} ignored: this program runs with the rights of another user"
            ));
            return None;
        }
        let Some(path) = settings::absolute(file) else {
            let file = Lossy(file);
            stderr_line(format_args!(
                "{option} ignored: no absolute path for {file}"
            ));
            return None;
        };
        // SAFETY: a fresh mapping touches nothing that exists.
        let page = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                size_of::<Text<PATH>>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            stderr_line(format_args!("{option} ignored: no memory for it"));
            return None;
        }
        let page: *mut Text<PATH> = page.cast();
        // SAFETY: the mapping is large enough, aligned to a page, ours alone, and is never unmapped.
        unsafe {
            page.write(path);
            Some(Self(&*page))
        }
    }

    /// Appends a report. A file that cannot be written loses it, and says so. `%p` in its name is the number of the process.
    pub fn append(self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let written = with_pid(self.0, |name| cancel::held_off(|| append_to(name, line)));
        if !written {
            let path = self.0.as_bytes();
            let name = Lossy(path.strip_suffix(b"\0").unwrap_or(path));
            stderr_line(format_args!("report lost: cannot write {name}"));
        }
    }
}

/// Calls `f` with the path, in which the process's number stands for `%p`.
fn with_pid(path: &Text<PATH>, f: impl FnOnce(&CStr) -> bool) -> bool {
    let whole = path.as_bytes();
    let run = |bytes: &[u8]| CStr::from_bytes_with_nul(bytes).is_ok_and(f);
    let Some(at) = whole.windows(2).position(|pair| pair == b"%p") else {
        return run(whole);
    };
    // Not on the stack, which may be a signal handler's.
    let made = Text::<PATH>::map();
    // SAFETY: fresh, ours alone, and an empty text.
    let Some(text) = (unsafe { made.as_mut() }) else {
        return false;
    };
    text.push(&whole[..at]);
    // SAFETY: no preconditions.
    let _ = write!(text, "{}", unsafe { libc::getpid() });
    text.push(&whole[at + 2..]);
    let done = text.is_whole() && run(text.as_bytes());
    // SAFETY: mapped above.
    unsafe { Text::unmap(made) };
    done
}

fn append_to(name: &CStr, line: &[u8]) -> bool {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::open(name.as_ptr(), flags, 0o644) };
    let written = fd >= 0 && write_all(fd, line);
    if fd >= 0 {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(fd) };
    }
    written
}
