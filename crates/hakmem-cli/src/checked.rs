//! What comes from outside is checked here before it is used: the memory of another process, and files that anybody may have
//! written. Whoever made them may have meant harm.
//!
//! Rules
//! 1. A number becomes an offset, a length, a count or a divisor only through [`within`], which names what it must lie in.
//!    What is outside is refused, with the number's name: [`refuse`]. Sizes that this program draws with are constants.
//! 2. A field lies in its struct and a struct in what was read: `Note::field`. What is read behind the end is zero.
//! 3. An address lies, with all that is read there, in the half of the address space that programs have: `Memory::read`.
//! 4. What a loop walks is bounded by more than what it finds: there is a [`Budget`] of bytes for a look, one of pages for
//!    lists, one of segments. A list that is longer than its pages have room for leads in a circle.
//! 5. Sums of what was read saturate ([`total`]), or are made in 128 bits, where 2^64 of them have room.
//! 6. Text from outside has no characters that a terminal obeys or an XML document may not have, and an end: [`name`].
//! 7. A file is read up to a length, line by line ([`Lines`]), and one that another file names only if it is a regular one
//!    ([`open`]).

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The characters of a name that are kept.
pub const NAME: usize = 256;

/// Why what was read is not used.
pub fn refuse(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Rule 1.
pub fn within(value: u64, range: RangeInclusive<usize>, name: &str) -> io::Result<usize> {
    match usize::try_from(value) {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(refuse(format!("its {name} makes no sense"))),
    }
}

/// What may be spent on one thing.
pub struct Budget {
    left: Cell<u64>,
    what: &'static str,
}

impl Budget {
    pub fn new(all: u64, what: &'static str) -> Self {
        let left = all.into();
        Self { left, what }
    }

    /// Whether there was so much left; if so, it is spent.
    pub fn has(&self, n: u64) -> bool {
        let left = self.left.get().checked_sub(n);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Refuses when there is not so much left.
    pub fn take(&self, n: u64) -> io::Result<()> {
        match self.has(n) {
            true => Ok(()),
            false => Err(refuse(format!(
                "it has more {} than are looked at",
                self.what
            ))),
        }
    }
}

/// Rule 5.
pub fn total(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Whether a character may be shown: it is none that a terminal obeys, turns the direction of text, or ends a line, and XML
/// has it.
fn is_shown(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !(turns || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}'))
}

/// Rule 6: a text in one line, with a `?` for what is not shown, and no more than `most` characters.
pub fn text(text: &str, most: usize) -> String {
    let shown = |c| if is_shown(c) { c } else { '?' };
    let mut all: String = text.chars().take(most).map(shown).collect();
    if text.chars().nth(most).is_some() {
        all.push('…');
    }
    all
}

/// Rule 6, for names.
pub fn name(name: &str) -> String {
    text(name, NAME)
}

/// For the user to read, on standard error, which may be closed or broken: that is no reason to fail. The message may have
/// names of files and programs in it.
pub fn say(message: &str) {
    let line = format!("hakmem: {}\n", text(message, 4096));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Rule 7: the lines of a text, each up to a length; bytes that are no UTF-8 are question marks.
pub struct Lines<R> {
    from: R,
    most: usize,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub fn new(from: R, most: usize) -> Self {
        let line = Vec::new();
        Self { from, most, line }
    }

    /// The next one, without its end; None after the last.
    pub fn next(&mut self) -> io::Result<Option<&str>> {
        self.line.clear();
        let n = (&mut self.from)
            .take(self.most as u64 + 1)
            .read_until(b'\n', &mut self.line)?;
        if n == 0 {
            return Ok(None);
        }
        if self.line.pop_if(|&mut b| b == b'\n').is_none() && n > self.most {
            let most = self.most;
            return Err(refuse(format!("a line is longer than {most} bytes")));
        }
        let mut from = 0;
        while let Err(e) = std::str::from_utf8(&self.line[from..]) {
            let bad = from + e.valid_up_to();
            let end = e.error_len().map_or(self.line.len(), |n| bad + n);
            self.line[bad..end].fill(b'?');
            from = end;
        }
        Ok(std::str::from_utf8(&self.line).ok())
    }
}

/// A file that the user named. A pipe is opened without waiting for who holds its other end; from
/// then on, reading and writing wait.
pub fn open_now(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.custom_flags(flags).open(path);
    let file = file.map_err(|e| match e.raw_os_error() {
        Some(libc::ENXIO) => io::Error::other("nobody has the other end of it"),
        _ => e,
    })?;
    // SAFETY: two system calls with a live descriptor and numbers.
    let changed = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK)
    };
    match changed {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Rule 7: a regular file, opened without waiting for anybody.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(refuse("not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_not_shown() {
        let evil = "a\x1b[2J\u{9b}\r\n\u{202e}é\u{7f}\u{2028}b";
        assert_eq!(name(evil), "a?[2J????é??b");
        assert_eq!(text("abcd", 4), "abcd");
        assert_eq!(text("abcde", 4), "abcd…");
    }

    #[test]
    fn numbers_outside_and_sums_beyond_their_words() {
        assert_eq!(within(8, 1..=8, "n").unwrap(), 8);
        let why = within(9, 1..=8, "n").unwrap_err();
        assert_eq!(
            (why.kind(), why.to_string().as_str()),
            (io::ErrorKind::InvalidData, "its n makes no sense")
        );
        assert_eq!(total([u64::MAX, 7]), u64::MAX);
        let budget = Budget::new(3, "things");
        assert!(budget.has(2) && !budget.has(2) && budget.take(1).is_err());
    }

    #[test]
    fn lines_have_an_end_and_are_text() {
        let mut lines = Lines::new(&b"ab\xffc\xe2\x82\n\nabcdef\nabcdefg\n"[..], 6);
        assert_eq!(lines.next().unwrap(), Some("ab?c??"));
        assert_eq!(lines.next().unwrap(), Some(""));
        assert_eq!(lines.next().unwrap(), Some("abcdef"));
        assert!(lines.next().is_err());
        let mut cut = Lines::new(&b"abcdef"[..], 6);
        assert_eq!(cut.next().unwrap(), Some("abcdef"));
        assert_eq!(cut.next().unwrap(), None);
    }

    #[test]
    fn only_regular_files_are_opened() {
        assert!(open(Path::new("/dev/zero")).is_err());
        assert!(open(Path::new("/proc/self/exe")).is_ok());
    }
}
