//! Messages of one line on standard error. [`fatal`] also ends the process. Neither allocates.

use crate::base::sync::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::plain::{AtomicBool, AtomicPtr};
use core::fmt::{self, Write};
use core::ptr::null_mut;

/// What writes more behind the line of an error. Null: nothing does.
#[unsafe(link_section = ".data.hakmem")]
static MORE: AtomicPtr<()> = AtomicPtr::new(null_mut());
/// True once a fatal error was reported.
static FATAL: AtomicBool = AtomicBool::new(false);

/// Makes [`show_more`] call `more`.
pub fn on_error(more: fn()) {
    MORE.store(more as *mut (), Release);
}

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

/// What each line goes to besides standard error. Null: nothing.
static COPY: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Calls `copy` with each line. It returns true if it took the line.
#[cfg(feature = "reports")]
pub fn on_line(copy: fn(&[u8]) -> bool) {
    COPY.store(copy as *mut (), Release);
}

/// Writes one line to standard error, cut at 256 bytes: see `stderr`. Allocates nothing.
pub fn report(what: fmt::Arguments<'_>) {
    with_line(what, |line| {
        super::write_line(line);
        let _ = copy(line);
    });
}

/// Writes a further line of a report: to where lines are copied to, or else to standard error.
pub fn detail(what: fmt::Arguments<'_>) {
    with_line(what, |line| {
        if copy(line) {
            return;
        }
        if is_ending() {
            super::write_stderr(line);
        } else {
            super::write_line(line);
        }
    });
}

fn with_line(what: fmt::Arguments<'_>, write: impl FnOnce(&[u8])) {
    let mut line = Line { bytes: [0; 256], len: 0 };
    let _ = writeln!(line, "hakmem: {what}");
    line.bytes[255] = b'\n';
    write(&line.bytes[..line.len]);
}

/// Copies a line. False: nothing takes it.
fn copy(line: &[u8]) -> bool {
    let copy = COPY.load(Acquire);
    // SAFETY: not null, and only `on_line` stores there: a function of this type.
    !copy.is_null() && unsafe { core::mem::transmute::<*mut (), fn(&[u8]) -> bool>(copy)(line) }
}

/// Calls what [`on_error`] named, if it named something.
#[cold]
pub fn show_more() {
    let more = MORE.load(Acquire);
    if !more.is_null() {
        // SAFETY: not null, and only `on_error` stores there: a function of this type.
        unsafe { core::mem::transmute::<*mut (), fn()>(more)() };
    }
}

/// True once an error was reported that ends the process.
pub fn is_ending() -> bool {
    FATAL.load(Relaxed)
}

/// Writes one line to standard error, whatever that is now, and ends the process by SIGABRT.
#[cold]
pub fn fatal(what: fmt::Arguments<'_>) -> ! {
    fatal_about(what, || ())
}

/// [`fatal`], which also calls `details`, for further lines. It does not for an error that is found
/// while another one is reported.
#[cold]
pub fn fatal_about(what: fmt::Arguments<'_>, details: impl FnOnce()) -> ! {
    with_line(what, |line| {
        super::write_stderr(line);
        let _ = copy(line);
    });
    if !FATAL.swap(true, Relaxed) {
        details();
        show_more();
    }
    super::abort()
}
