//! What comes from outside is checked here before it is used: the memory of another process, and
//! files that anybody may have written. Whoever made them may have meant harm.
//!
//! Rules
//! 1. A number becomes an offset, a length, a count or a divisor only through [`within`], which
//!    names what it must lie in. What is outside is refused, with the number's name: [`refuse`].
//!    Sizes that this program draws with are constants.
//! 2. A field lies in its struct and a struct in what was read: `Note::field`. What is read behind
//!    the end is zero.
//! 3. An address lies, with all that is read there, in the half of the address space that programs
//!    have: `Memory::read`.
//! 4. What a loop walks is bounded by more than what it finds: there is a [`Budget`] of bytes for a
//!    look, one of pages for lists, one of segments. A list that is longer than its pages have room
//!    for leads in a circle.
//! 5. Sums of what was read saturate ([`total`]), or are made in 128 bits, where 2^64 of them have
//!    room.
//! 6. Text from outside has no characters that a terminal obeys or an XML document may not have,
//!    and an end: [`name`].
//! 7. A file is read up to a length, line by line ([`Lines`]), and one that another file names only
//!    if it is a regular one ([`open`]).

use crate::lines::wrap;
use crate::terminal::Terminal;
pub use hakmem_pprof::tool::checked::{Budget, Lines, name, refuse, text, total};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Rule 1.
pub fn within(value: u64, range: RangeInclusive<usize>, name: &str) -> io::Result<usize> {
    match usize::try_from(value) {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(refuse(format!("its {name} makes no sense"))),
    }
}

/// For the user to read, on standard error, which may be closed or broken: that is no reason to
/// fail. The message may have names of files and programs in it. It is one line; a terminal gets it
/// broken between words.
pub fn say(message: &str) {
    let line = format!("hakmem: {}", text(message, 4096));
    let lines = match Terminal::of_stderr() {
        Some(terminal) => wrap(&line, terminal.width, 2).join("\n"),
        None => line,
    };
    let _ = io::stderr().write_all((lines + "\n").as_bytes());
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

/// Rule 7: the first bytes of a file, `most` of them.
pub fn start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_are_refused() {
        assert_eq!(within(8, 1..=8, "n").unwrap(), 8);
        let why = within(9, 1..=8, "n").unwrap_err();
        assert_eq!(
            (why.kind(), why.to_string().as_str()),
            (io::ErrorKind::InvalidData, "its n makes no sense")
        );
    }

    #[test]
    fn only_regular_files_are_opened() {
        assert!(open(Path::new("/dev/zero")).is_err());
        assert!(open(Path::new("/proc/self/exe")).is_ok());
    }
}
