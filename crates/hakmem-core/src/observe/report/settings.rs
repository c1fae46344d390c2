//! `HAKMEM_STATS`, `HAKMEM_MAP`, `HAKMEM_PROFILE`, and the signals that ask for them: what to report, where and when.

use super::Format;
use super::out::{Lossy, Text, stderr_line};
use core::ffi::{CStr, c_char, c_int};
use core::fmt::Write;

/// What `HAKMEM_STATS` asks for.
#[derive(Clone, Copy)]
pub struct Report<'a> {
    pub format: Format,
    /// Appended to this file; none: on stderr.
    pub file: Option<&'a [u8]>,
}

/// Parses a value of `HAKMEM_STATS`. Empty and `0` mean no report; a malformed value is named on stderr and ignored.
fn parse(value: &[u8]) -> Option<Report<'_>> {
    if matches!(value, b"" | b"0") {
        return None;
    }
    let mut parts = value.splitn(2, |&b| b == b':');
    let format = match parts.next() {
        Some(b"1") => Some(Format::Human),
        Some(b"json") => Some(Format::Json),
        Some(b"csv") => Some(Format::Csv),
        _ => None,
    };
    let file = parts.next();
    match format {
        Some(format) if file.is_none_or(|file| !file.is_empty()) => Some(Report { format, file }),
        _ => {
            let value = Lossy(value);
            stderr_line(format_args!(
                "HAKMEM_STATS={value} ignored: it is 1, json or csv, and :FILE behind it for a file"
            ));
            None
        }
    }
}

/// Parses the value of an option that names a signal: with or without SIG, or as a number.
fn parse_signal(option: Lossy<'_>, value: &[u8]) -> Option<c_int> {
    let name = value.strip_prefix(b"SIG").unwrap_or(value);
    let signal = match name {
        b"" => return None,
        b"USR1" => Some(libc::SIGUSR1),
        b"USR2" => Some(libc::SIGUSR2),
        b"HUP" => Some(libc::SIGHUP),
        b"QUIT" => Some(libc::SIGQUIT),
        b"PWR" => Some(libc::SIGPWR),
        b"IO" => Some(libc::SIGIO),
        b"URG" => Some(libc::SIGURG),
        b"WINCH" => Some(libc::SIGWINCH),
        _ => core::str::from_utf8(value).ok().and_then(|v| v.parse().ok()),
    };
    // Faults cannot be reported on and passed, and the rest cannot be caught, or is the C library's.
    let barred = [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
    let usable = |s: &c_int| (1..32).contains(s) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(s);
    let signal = signal.filter(usable).filter(|s| !barred.contains(s));
    if signal.is_none() {
        let value = Lossy(value);
        stderr_line(format_args!(
            "{option}={value} ignored: not a signal that a report can be asked for by, such as USR2"
        ));
    }
    signal
}

/// The signal that an option, given with its `=`, names.
///
/// # Safety
/// As [`read`].
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn read_signal(envp: *const *const c_char, option: &[u8]) -> Option<c_int> {
    // SAFETY: `envp` is what `value_of` asks for: the contract is the same.
    let value = unsafe { value_of(envp, option) }?;
    parse_signal(Lossy(option.strip_suffix(b"=").unwrap_or(option)), value)
}

/// The file that `HAKMEM_PROFILE` names; empty and `0` mean none.
///
/// # Safety
/// As [`read`].
pub unsafe fn read_profile<'a>(envp: *const *const c_char) -> Option<&'a [u8]> {
    // SAFETY: `envp` is what `value_of` asks for: the contract is the same.
    let file = unsafe { value_of(envp, b"HAKMEM_PROFILE=") };
    file.filter(|file| !matches!(*file, b"" | b"0"))
}

/// What `HAKMEM_STATS` asks for.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings that live for `'a`.
pub unsafe fn read<'a>(envp: *const *const c_char) -> Option<Report<'a>> {
    // SAFETY: `envp` is what `value_of` asks for: the contract is the same.
    parse(unsafe { value_of(envp, b"HAKMEM_STATS=") }?)
}

/// The file that `HAKMEM_MAP` names.
///
/// # Safety
/// As [`read`].
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn read_map<'a>(envp: *const *const c_char) -> Option<&'a [u8]> {
    // SAFETY: `envp` is what `value_of` asks for: the contract is the same.
    unsafe { value_of(envp, b"HAKMEM_MAP=") }
}

/// Finds a variable, given with its `=`, in an environment block; the first one counts, as for getenv.
///
/// # Safety
/// As [`read`].
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe fn value_of<'a>(envp: *const *const c_char, name: &[u8]) -> Option<&'a [u8]> {
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
        if unsafe { starts_with(entry, name) } {
            // SAFETY: entries are C strings that live for `'a`.
            let entry = unsafe { CStr::from_ptr(entry) }.to_bytes();
            return Some(&entry[name.len()..]);
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
    prefix.iter().enumerate().all(|(i, &b)| unsafe { *s.add(i) } as u8 == b)
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
