//! `HAKMEM_STATS`: what to report at exit, and where.

use crate::out::{Lossy, Text, stderr_line};
use core::ffi::{CStr, c_char};
use core::fmt::Write;

/// What `HAKMEM_STATS` asks for.
#[derive(Clone, Copy)]
pub enum Report<'a> {
    /// A few lines on stderr.
    Human,
    /// One JSON line on stderr.
    Json,
    /// One JSON line appended to a file.
    JsonFile(&'a [u8]),
}

/// Parses a value of `HAKMEM_STATS`. Empty and `0` mean no report; a malformed value is named on stderr and ignored.
fn parse(value: &[u8]) -> Option<Report<'_>> {
    match value {
        b"" | b"0" => None,
        b"1" => Some(Report::Human),
        b"json" => Some(Report::Json),
        _ => match value.strip_prefix(b"json:") {
            Some(file) if !file.is_empty() => Some(Report::JsonFile(file)),
            _ => {
                let value = Lossy(value);
                stderr_line(format_args!(
                    "HAKMEM_STATS={value} ignored: it is 1, json or json:FILE"
                ));
                None
            }
        },
    }
}

/// Finds `HAKMEM_STATS` in an environment block; the first one counts, as for getenv.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings that live for `'a`.
pub unsafe fn read<'a>(envp: *const *const c_char) -> Option<Report<'a>> {
    if envp.is_null() {
        return None;
    }
    let mut at = envp;
    loop {
        // SAFETY: `at` has not passed the NULL at the end of the array.
        let entry = unsafe { *at };
        if entry.is_null() {
            return None;
        }
        // SAFETY: entries are C strings; only as much is read as compares equal.
        if unsafe { starts_with(entry, b"HAKMEM_STATS=") } {
            // SAFETY: as above.
            let entry = unsafe { CStr::from_ptr(entry) }.to_bytes();
            return parse(&entry[b"HAKMEM_STATS=".len()..]);
        }
        // SAFETY: the entry was not the last.
        at = unsafe { at.add(1) };
    }
}

/// Compares without measuring the string first: environments have long entries, and all of them pass here at start-up.
///
/// # Safety
/// `s` is a C string.
unsafe fn starts_with(s: *const c_char, prefix: &[u8]) -> bool {
    // SAFETY: a difference, at the latest the terminating NUL, ends the comparison.
    prefix
        .iter()
        .enumerate()
        .all(|(i, &b)| unsafe { *s.add(i) } as u8 == b)
}

/// The longest path of a report file, with its NUL.
pub const PATH: usize = libc::PATH_MAX as usize;

/// `file` as an absolute path, so that it stays the same file when the program changes its directory.
pub fn absolute(file: &[u8]) -> Option<Text<PATH>> {
    let mut path = Text::<PATH>::new();
    if !file.starts_with(b"/") {
        let mut directory = [0u8; PATH];
        // SAFETY: the pointer and length are those of the buffer; it is terminated on success.
        if unsafe { libc::getcwd(directory.as_mut_ptr().cast(), directory.len()) }.is_null() {
            return None;
        }
        path.push(CStr::from_bytes_until_nul(&directory).ok()?.to_bytes());
        let _ = path.write_char('/');
    }
    path.push(file);
    path.push(b"\0");
    path.is_whole().then_some(path)
}
