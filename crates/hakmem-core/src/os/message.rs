//! Messages of one line on standard error. [`fatal`] also ends the process. Neither allocates.

use core::fmt::{self, Write};

/// A line of text on the stack.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let n = s.len().min(room.len());
        room[..n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Writes one line to standard error, cut at 256 bytes. Allocates nothing.
pub fn report(what: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 256], len: 0 };
    let _ = writeln!(line, "hakmem: {what}");
    line.bytes[255] = b'\n';
    super::write_stderr(&line.bytes[..line.len]);
}

/// Writes one line to standard error, as [`report`], and ends the process by SIGABRT.
#[cold]
pub fn fatal(what: fmt::Arguments<'_>) -> ! {
    report(what);
    super::abort()
}
