//! Writes without allocating: formats text into a fixed buffer, and passes it to `write` as a
//! whole.

use super::errno::Reason;
use crate::os;
use core::ffi::c_int;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// A text of at most `N` bytes. It drops further bytes, and notes that it did.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
    cut: bool,
}

#[allow(clippy::new_without_default, reason = "nobody is generic over it")]
impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0, cut: false }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The text. Empty if it is not UTF-8: a name in it was cut, or has other bytes.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// Maps memory for an empty text. Null: the system refuses.
    pub fn map() -> *mut Self {
        // SAFETY: without a fixed address, the system maps a range that nothing else uses.
        let page = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                size_of::<Self>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        // A map begins at a system page, so it is aligned. All zero bytes are an empty text.
        if page == libc::MAP_FAILED { core::ptr::null_mut() } else { page.cast() }
    }

    /// Unmaps a text.
    ///
    /// # Safety
    /// [`Text::map`] made the text, and nothing refers to it any more.
    pub unsafe fn unmap(this: *mut Self) {
        // SAFETY: the caller says that `map` made it, so the map has this length, and that nothing
        // refers to it any more.
        unsafe { libc::munmap(this.cast(), size_of::<Self>()) };
    }

    /// Makes the text empty.
    pub fn clear(&mut self) {
        (self.len, self.cut) = (0, false);
    }

    /// True if the text dropped nothing.
    pub fn is_whole(&self) -> bool {
        !self.cut
    }

    /// Appends bytes: names need not be UTF-8.
    pub fn push(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(N - self.len);
        self.bytes[self.len..][..n].copy_from_slice(&bytes[..n]);
        self.len += n;
        self.cut |= n < bytes.len();
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push(s.as_bytes());
        Ok(())
    }
}

/// Bytes as people read them. All but printable ASCII is shown as `?`: other bytes, and line
/// breaks.
pub struct Lossy<'a>(pub &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&b| match b {
            b' '..=b'~' => f.write_char(char::from(b)),
            _ => f.write_char('?'),
        })
    }
}

/// Writes all of `bytes`, in one system call if the descriptor takes as much. False: not all was
/// written. The program did not ask for this write. So neither a pipe without a reader nor a limit
/// on a file's size ends it.
pub fn write_all(fd: c_int, bytes: &[u8]) -> bool {
    write(fd, bytes).is_ok()
}

/// As [`write_all`], with the reason if not all was written.
pub fn write(fd: c_int, bytes: &[u8]) -> Result<(), Reason> {
    os::write_quietly(fd, bytes).map_err(Reason)
}

/// Writes one line to stderr, with `hakmem: ` before it, unless the program uses that number for
/// something else by now.
#[cold]
pub fn stderr_line(message: fmt::Arguments<'_>) {
    with_line(message, os::write_line);
}

/// Writes one line to stderr in any case: the process ends.
#[cold]
pub fn last_line(message: fmt::Arguments<'_>) {
    with_line(message, os::write_stderr);
}

fn with_line(message: fmt::Arguments<'_>, write: impl FnOnce(&[u8])) {
    let mut line = Text::<512>::new();
    // Writing into a Text never fails. A line that is too long is cut, and keeps a byte for the
    // break.
    let _ = write!(line, "hakmem: {message}");
    line.len = line.len.min(511);
    line.push(b"\n");
    write(line.as_bytes());
}

/// Writes to stderr that something is lost, and why. Once in a process, however much is lost.
#[cold]
pub fn say_lost(message: fmt::Arguments<'_>) {
    /// The process that wrote the line; 0: none. The child of a fork is another process.
    static SAID: AtomicI32 = AtomicI32::new(0);
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() };
    if SAID.swap(pid, Relaxed) != pid {
        stderr_line(message);
    }
}
