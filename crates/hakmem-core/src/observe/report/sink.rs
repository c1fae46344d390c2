//! Where a report goes: to stderr or to a file.
//!
//! Rules
//! 1. Another user may have put something at a name that the environment gives. So opening it
//!    follows no symbolic link at the end of the path, waits for no reader, and takes no terminal
//!    as the process's own. Reports contain addresses. So only the owner can read a file that
//!    hakmem makes.
//! 2. Links of the kernel that stand for a descriptor (`/dev/stdout`, `/dev/fd/3`) are followed.
//! 3. A process that made a filter (`c::is_filtered`) opens nothing. It writes to descriptors that
//!    were opened before the filter was made. They have high numbers, and are not checked again.

use super::errno::Reason;
use super::out::{self, Lossy, Text, stderr_line, write_all};
use super::settings::{self, PATH};
use crate::api::c;
use crate::os;
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// The lowest number for a kept descriptor. Programs count on low numbers.
const LOWEST: c_int = 200;

/// A descriptor that is kept for a process with a filter (rule 3), or -1. The thread that makes the
/// filter stores it. It guards no memory. So relaxed loads and stores are enough.
struct Kept(AtomicI32);

impl Kept {
    const fn none() -> Self {
        Self(AtomicI32::new(-1))
    }

    fn get(&self) -> Option<c_int> {
        Some(self.0.load(Relaxed)).filter(|&fd| fd >= 0)
    }

    /// Keeps `fd`, and closes the descriptor that was kept before.
    fn set(&self, fd: c_int) {
        let before = self.0.swap(fd, Relaxed);
        if before >= 0 {
            // `duplicate` made it for this `Kept`. The swap took it, so no other thread closes it.
            os::close(before);
        }
    }
}

/// A second descriptor of the same open file, or -1.
fn duplicate(fd: c_int) -> c_int {
    // SAFETY: the call takes no pointer. It makes a new descriptor, or fails.
    unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, LOWEST) }
}

/// The descriptor that [`Stderr::keep_for_later`] keeps.
static STDERR: Kept = Kept::none();

/// The stderr that the program was started with.
///
/// Many programs close their stderr before they end, and open another file that gets its number. So
/// this keeps a second descriptor, and checks that a descriptor is still the same file before it
/// writes.
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

    /// A descriptor that is still the same file. None: both were closed or replaced.
    fn now(self) -> Option<c_int> {
        let mut numbers = [self.kept, libc::STDERR_FILENO].into_iter();
        numbers.find(|&fd| self.identity.is_some() && identity(fd) == self.identity)
    }

    /// Keeps one more descriptor. To be called before the process makes a filter (rule 3).
    pub fn keep_for_later(self) {
        STDERR.set(self.now().map_or(-1, duplicate));
    }

    /// Closes the kept descriptor: the process made no filter.
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
    // SAFETY: `stat` is a local with room for the struct that fstat writes.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: fstat succeeded, so it filled in the struct.
    let stat = unsafe { stat.assume_init() };
    Some((stat.st_dev, stat.st_ino))
}

/// A file that reports are appended to, by its absolute path. The path lies in a map of its own.
/// Programs overwrite their environment to set a title, so it cannot stay there. In the library's
/// data it would cost every process a system page.
#[derive(Clone, Copy)]
pub struct File(&'static Named);

struct Named {
    path: Text<PATH>,
    kept: Kept,
}

impl File {
    /// Keeps the path. None: it cannot. A line on stderr then names the option.
    pub fn keep(option: &str, file: &[u8]) -> Option<Self> {
        let Some(path) = settings::absolute(file) else {
            let file = Lossy(file);
            stderr_line(format_args!("{option} ignored: no absolute path for {file}"));
            return None;
        };
        // SAFETY: without a fixed address, the system maps a range that nothing else uses.
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
        // SAFETY: the map has the size of `Named` and begins at a system page. Only this call has
        // its address until the write is done, and no one unmaps it.
        unsafe {
            page.write(Named { path, kept });
            Some(Self(&*page))
        }
    }

    /// Opens the file and keeps it open. To be called before the process makes a filter (rule 3).
    /// `%p` in the name is the number that the process has now.
    pub fn keep_open(self) {
        let opened = with_pid(&self.0.path, |name| {
            let fd = open(name)?;
            let kept = duplicate(fd);
            let result = if kept < 0 { Err(Reason::last()) } else { Ok(()) };
            self.0.kept.set(kept);
            os::close(fd);
            result
        });
        opened.unwrap_or_else(|why| self.say_lost(why));
    }

    /// Closes the kept descriptor: the process made no filter.
    pub fn drop_what_was_kept(self) {
        self.0.kept.set(-1);
    }

    /// Appends a report. If the file cannot be written, the report is lost, and a line on stderr
    /// says so. `%p` in the file's name is the number of the process.
    pub fn append(self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let written = if c::is_filtered() {
            // If `keep_open` could not open the file, it has said so.
            self.0.kept.get().map_or(Ok(()), |fd| out::write(fd, line))
        } else {
            with_pid(&self.0.path, |name| append_to(name, line))
        };
        written.unwrap_or_else(|why| self.say_lost(why));
    }

    /// [`File::append`] on the bare thread, without libc. False: the line is not in the file.
    pub fn append_on_bare_thread(self, line: &[u8]) -> bool {
        if c::is_filtered() {
            return false;
        }
        let append =
            |name: &CStr| match by_path(name, |name, flags| os::write_to(name, flags, line)) {
                true => Ok(()),
                false => Err(Reason(libc::EIO)),
            };
        with_pid(&self.0.path, append).is_ok()
    }

    fn say_lost(self, why: Reason) {
        let say = |name: &CStr| {
            let path = name.to_bytes();
            // The line has room for SHOWN bytes of the path. The file's name is at its end.
            let rest = path.len().saturating_sub(SHOWN);
            let (cut, name) = (if rest > 0 { "..." } else { "" }, Lossy(&path[rest..]));
            out::say_lost(format_args!("report lost: cannot write {cut}{name}: {why}"));
            Ok(())
        };
        // Without memory for the name with the process's number, the line shows `%p`.
        if with_pid(&self.0.path, say).is_err()
            && let Ok(name) = CStr::from_bytes_with_nul(self.0.path.as_bytes())
        {
            let _ = say(name);
        }
    }
}

/// Bytes of a path that a message shows.
const SHOWN: usize = 400;

/// Calls `f` with the path, with the number of the process in place of `%p`.
fn with_pid(path: &Text<PATH>, f: impl FnOnce(&CStr) -> Result<(), Reason>) -> Result<(), Reason> {
    let whole = path.as_bytes();
    let run = |bytes: &[u8]| {
        CStr::from_bytes_with_nul(bytes).map_err(|_| Reason(libc::EINVAL)).and_then(f)
    };
    let Some(at) = whole.windows(2).position(|pair| pair == b"%p") else {
        return run(whole);
    };
    // The path is too long for the stack, which may be a signal handler's.
    let made = Text::<PATH>::map();
    // SAFETY: null, or an empty text that `map` has just made, and only this call has its address.
    let Some(text) = (unsafe { made.as_mut() }) else {
        return Err(Reason(libc::ENOMEM));
    };
    text.push(&whole[..at]);
    // SAFETY: getpid has no preconditions.
    let _ = write!(text, "{}", unsafe { libc::getpid() });
    text.push(&whole[at + 2..]);
    let done = if text.is_whole() { run(text.as_bytes()) } else { Err(Reason(libc::ENAMETOOLONG)) };
    // SAFETY: `map` made it, and `run` has returned, so nothing refers to it any more.
    unsafe { Text::unmap(made) };
    done
}

/// The digits of the descriptor that a link of the kernel stands for (rule 2). None: no such link.
fn descriptor_in(name: &CStr) -> Option<&[u8]> {
    let name = name.to_bytes();
    match name {
        b"/dev/stdout" => return Some(b"1"),
        b"/dev/stderr" => return Some(b"2"),
        _ => {}
    }
    let digits = [&b"/dev/fd/"[..], b"/proc/self/fd/"]
        .iter()
        .find_map(|directory| name.strip_prefix(*directory))?;
    let is_number = (1..10).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then_some(digits)
}

/// Calls `open` with the path and the flags that open a file to append to (rules 1, 2).
fn by_path<T>(name: &CStr, open: impl FnOnce(&CStr, c_int) -> T) -> T {
    let flags =
        libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut link = Text::<32>::new();
    if let Some(number) = descriptor_in(name) {
        // The text has room for nine digits and the NUL.
        for part in [b"/proc/self/fd/", number, b"\0"] {
            link.push(part);
        }
    }
    match CStr::from_bytes_with_nul(link.as_bytes()) {
        Ok(link) => open(link, flags),
        Err(_) => open(name, flags | libc::O_CREAT | libc::O_NOFOLLOW),
    }
}

/// Opens a file to append to (rules 1, 2).
fn open(name: &CStr) -> Result<c_int, Reason> {
    by_path(name, os::open).map_err(Reason)
}

fn append_to(name: &CStr, line: &[u8]) -> Result<(), Reason> {
    let fd = open(name)?;
    let written = out::write(fd, line);
    os::close(fd);
    written
}
