//! Writing without allocating: text is formatted into a fixed buffer and leaves in one `write`.

use core::ffi::c_int;
use core::fmt::{self, Write};

/// A text of at most `N` bytes; what goes beyond is cut off and remembered.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
    cut: bool,
}

impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
            cut: false,
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Whether everything fitted.
    pub fn is_whole(&self) -> bool {
        !self.cut
    }

    /// Appends bytes, for names that need not be UTF-8.
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

/// Bytes for people: not always UTF-8, and never a line break.
pub struct Lossy<'a>(pub &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&b| match b {
            b' '..=b'~' => f.write_char(char::from(b)),
            _ => f.write_char('?'),
        })
    }
}

/// Writes all of `bytes` in one system call, tried again if a signal came first. False if it did not take everything.
pub fn write_once(fd: c_int, bytes: &[u8]) -> bool {
    loop {
        // SAFETY: the pointer and length are those of a slice.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        // SAFETY: errno's address is valid for the calling thread.
        if written < 0 && unsafe { *libc::__errno_location() } == libc::EINTR {
            continue;
        }
        return usize::try_from(written) == Ok(bytes.len());
    }
}

/// One line on stderr, under our name.
#[cold]
pub fn stderr_line(message: fmt::Arguments<'_>) {
    let mut line = Text::<512>::new();
    // Writing into a Text never fails; too long a line is cut, its end is kept free for the line break.
    let _ = write!(line, "hakmem: {message}");
    line.len = line.len.min(511);
    line.push(b"\n");
    crate::errno::preserved(|| write_once(libc::STDERR_FILENO, line.as_bytes()));
}
