//! Where the report goes.
//!
//! 1. A name that the environment gives is opened as one that others may have put something at: the last part of it is no
//!    symbolic link, nothing waits for a reader, and no terminal becomes the process's own. Files that are made are readable
//!    to their owner alone, as addresses stand in them.
//! 2. The links of the kernel's own that stand for a descriptor (`/dev/stdout`, `/dev/fd/3`) are opened as what they lead to.
//! 3. A process with a filter (`c::is_filtered`) opens nothing. It has what was opened before the filter was made, at a number that is out
//!    of its way, and does not look at it again.

use super::cancel;
use super::errno::Reason;
use super::out::{self, Lossy, Text, stderr_line, write_all};
use super::settings::{self, PATH};
use crate::api::c;
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// A descriptor out of the way of the low numbers that programs count on.
const LOWEST: c_int = 200;

/// A descriptor that is kept for a process with a filter (3), or -1. Whoever makes a filter puts it in; it guards no memory: relaxed.
struct Kept(AtomicI32);

impl Kept {
    const fn none() -> Self {
        Self(AtomicI32::new(-1))
    }

    fn get(&self) -> Option<c_int> {
        Some(self.0.load(Relaxed)).filter(|&fd| fd >= 0)
    }

    /// Closes what was kept before.
    fn set(&self, fd: c_int) {
        let before = self.0.swap(fd, Relaxed);
        if before >= 0 {
            // SAFETY: it was ours alone.
            unsafe { libc::close(before) };
        }
    }
}

/// A second descriptor of the same open file, or -1.
fn duplicate(fd: c_int) -> c_int {
    // SAFETY: makes a new descriptor, or fails.
    unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, LOWEST) }
}

/// See [`Stderr::keep_for_later`].
static STDERR: Kept = Kept::none();

/// The stderr that the program was started with. Many programs close theirs before they end, and a number may be
/// another file by then: so a second descriptor is kept, and what is written to must still be the same file.
#[derive(Clone, Copy)]
pub struct Stderr {
    kept: c_int,
    identity: Option<(libc::dev_t, libc::ino_t)>,
}

impl Stderr {
    pub fn keep() -> Self {
        let identity = identity(libc::STDERR_FILENO);
        let kept = duplicate(libc::STDERR_FILENO);
        Self { kept, identity }
    }

    /// The number that it has now.
    fn now(self) -> Option<c_int> {
        let mut numbers = [self.kept, libc::STDERR_FILENO].into_iter();
        numbers.find(|&fd| self.identity.is_some() && identity(fd) == self.identity)
    }

    /// Before the process makes a filter (3).
    pub fn keep_for_later(self) {
        STDERR.set(self.now().map_or(-1, duplicate));
    }

    /// It has made none.
    pub fn drop_what_was_kept() {
        STDERR.set(-1);
    }

    pub fn write(self, lines: &[u8]) {
        let number = if c::is_filtered() { STDERR.get() } else { self.now() };
        if let Some(fd) = number {
            write_all(fd, lines);
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
pub struct File(&'static Named);

struct Named {
    path: Text<PATH>,
    kept: Kept,
}

impl File {
    /// None, with a line on stderr that names the option, if the path cannot be kept.
    pub fn keep(option: &str, file: &[u8]) -> Option<Self> {
        let Some(path) = settings::absolute(file) else {
            let file = Lossy(file);
            stderr_line(format_args!("{option} ignored: no absolute path for {file}"));
            return None;
        };
        // SAFETY: a fresh mapping touches nothing that exists.
        let page = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                size_of::<Named>(),
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
        let page: *mut Named = page.cast();
        let kept = Kept::none();
        // SAFETY: the mapping is large enough, aligned to a page, ours alone, and is never unmapped.
        unsafe {
            page.write(Named { path, kept });
            Some(Self(&*page))
        }
    }

    /// Before the process makes a filter (3): its name is the one that it has now.
    pub fn keep_open(self) {
        let opened = with_pid(&self.0.path, |name| {
            let fd = cancel::held_off(|| open(name))?;
            let kept = duplicate(fd);
            let result = if kept < 0 { Err(Reason::last()) } else { Ok(()) };
            self.0.kept.set(kept);
            // SAFETY: `open` has just made it, for this call alone.
            unsafe { libc::close(fd) };
            result
        });
        opened.unwrap_or_else(|why| self.say_lost(why));
    }

    /// It has made none.
    pub fn drop_what_was_kept(self) {
        self.0.kept.set(-1);
    }

    /// Appends a report. A file that cannot be written loses it, and says so. `%p` in its name is the number of the process.
    pub fn append(self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let written = if c::is_filtered() {
            // That it could not be opened was said then.
            self.0.kept.get().map_or(Ok(()), |fd| out::write(fd, line))
        } else {
            with_pid(&self.0.path, |name| cancel::held_off(|| append_to(name, line)))
        };
        written.unwrap_or_else(|why| self.say_lost(why));
    }

    fn say_lost(self, why: Reason) {
        let path = self.0.path.as_bytes();
        let path = path.strip_suffix(b"\0").unwrap_or(path);
        // A line has room for so much of it, and the file is at its end.
        let rest = path.len().saturating_sub(SHOWN);
        let (cut, name) = (if rest > 0 { "..." } else { "" }, Lossy(&path[rest..]));
        out::say_lost(format_args!("report lost: cannot write {cut}{name}: {why}"));
    }
}

/// Bytes of a path that a line about it shows.
const SHOWN: usize = 400;

/// Calls `f` with the path, in which the process's number stands for `%p`.
fn with_pid(path: &Text<PATH>, f: impl FnOnce(&CStr) -> Result<(), Reason>) -> Result<(), Reason> {
    let whole = path.as_bytes();
    let run = |bytes: &[u8]| CStr::from_bytes_with_nul(bytes).map_err(|_| Reason(libc::EINVAL)).and_then(f);
    let Some(at) = whole.windows(2).position(|pair| pair == b"%p") else {
        return run(whole);
    };
    // Not on the stack, which may be a signal handler's.
    let made = Text::<PATH>::map();
    // SAFETY: fresh, ours alone, and an empty text.
    let Some(text) = (unsafe { made.as_mut() }) else {
        return Err(Reason(libc::ENOMEM));
    };
    text.push(&whole[..at]);
    // SAFETY: no preconditions.
    let _ = write!(text, "{}", unsafe { libc::getpid() });
    text.push(&whole[at + 2..]);
    let done = if text.is_whole() { run(text.as_bytes()) } else { Err(Reason(libc::ENAMETOOLONG)) };
    // SAFETY: mapped above, and `run` has returned.
    unsafe { Text::unmap(made) };
    done
}

/// The descriptor that a link of the kernel's own stands for, as the number's digits (2).
fn descriptor_in(name: &CStr) -> Option<&[u8]> {
    let name = name.to_bytes();
    match name {
        b"/dev/stdout" => return Some(b"1"),
        b"/dev/stderr" => return Some(b"2"),
        _ => {}
    }
    let digits = [&b"/dev/fd/"[..], b"/proc/self/fd/"].iter().find_map(|directory| name.strip_prefix(*directory))?;
    let is_number = (1..10).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then_some(digits)
}

/// Opens a file for appending (1).
fn open(name: &CStr) -> Result<c_int, Reason> {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let fd = if let Some(number) = descriptor_in(name) {
        let mut link = Text::<32>::new();
        for part in [b"/proc/self/fd/", number, b"\0"] {
            link.push(part);
        }
        // SAFETY: the text ends in a NUL, and has room for nine digits.
        unsafe { libc::open(link.as_bytes().as_ptr().cast(), flags) }
    } else {
        // SAFETY: the name is a C string.
        unsafe { libc::open(name.as_ptr(), flags | libc::O_CREAT | libc::O_NOFOLLOW, 0o600) }
    };
    if fd < 0 { Err(Reason::last()) } else { Ok(fd) }
}

fn append_to(name: &CStr, line: &[u8]) -> Result<(), Reason> {
    let fd = open(name)?;
    let written = out::write(fd, line);
    // SAFETY: `open` has just made it, for this call alone.
    unsafe { libc::close(fd) };
    written
}
