//! Reads from the environment what to report, where and when: `HAKMEM_STATS`, `HAKMEM_MAP`,
//! `HAKMEM_PROFILE`, and the signals that ask for them.

use super::Format;
use super::out::{Lossy, Text, stderr_line};
use core::ffi::{CStr, c_char, c_int};
use core::fmt::Write;

/// What `HAKMEM_STATS` asks for.
#[derive(Clone, Copy)]
pub struct Report<'a> {
    pub format: Format,
    /// The file to append to. None: stderr.
    pub file: Option<&'a [u8]>,
}

/// Parses a value of `HAKMEM_STATS`. Empty and `0` mean no report. It ignores a malformed value,
/// with a line on stderr.
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

/// Parses the value of an option that names a signal: a name with or without SIG, or a number.
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
    // A handler for a fault would return to the fault. SIGABRT ends the process. The others cannot
    // be caught, or the C library uses them.
    let barred = [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGABRT,
    ];
    let usable =
        |s: &c_int| (1..32).contains(s) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(s);
    let signal = signal.filter(usable).filter(|s| !barred.contains(s));
    if signal.is_none() {
        let value = Lossy(value);
        stderr_line(format_args!(
            "{option}={value} ignored: not a signal that a report can be asked for by, such as USR2"
        ));
    }
    signal
}

/// The signal that an option names. `option` ends with `=`.
///
/// # Safety
/// - `envp` is NULL or a NULL-terminated array of C strings, which do not change during the call.
/// - `option` has no NUL.
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn read_signal(envp: *const *const c_char, option: &[u8]) -> Option<c_int> {
    // SAFETY: the caller says that `envp` is NULL or such an array, and that `option` has no NUL.
    let value = unsafe { value_of(envp, option) }?;
    parse_signal(Lossy(option.strip_suffix(b"=").unwrap_or(option)), value)
}

/// The file that `HAKMEM_PROFILE` names. Empty and `0` mean none.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, which live for `'a` without a change.
pub unsafe fn read_profile<'a>(envp: *const *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller says that `envp` is NULL or such an array. The name has no NUL.
    let file = unsafe { value_of(envp, b"HAKMEM_PROFILE=") };
    file.filter(|file| !matches!(*file, b"" | b"0"))
}

/// What `HAKMEM_STATS` asks for.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, which live for `'a` without a change.
pub unsafe fn read<'a>(envp: *const *const c_char) -> Option<Report<'a>> {
    // SAFETY: the caller says that `envp` is NULL or such an array. The name has no NUL.
    parse(unsafe { value_of(envp, b"HAKMEM_STATS=") }?)
}

/// The file that `HAKMEM_MAP` names.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, which live for `'a` without a change.
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn read_map<'a>(envp: *const *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller says that `envp` is NULL or such an array. The name has no NUL.
    unsafe { value_of(envp, b"HAKMEM_MAP=") }
}

/// The file that `HAKMEM_ERRORS` names. Empty: none.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, which live for `'a` without a change.
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn read_errors<'a>(envp: *const *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller says that `envp` is NULL or such an array. The name has no NUL.
    unsafe { value_of(envp, b"HAKMEM_ERRORS=") }.filter(|file| !file.is_empty())
}

/// The value of a variable in an environment block. `name` ends with `=`. The first one counts, as
/// for getenv.
///
/// # Safety
/// - `envp` is NULL or a NULL-terminated array of C strings, which live for `'a` without a change.
/// - `name` has no NUL.
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe fn value_of<'a>(envp: *const *const c_char, name: &[u8]) -> Option<&'a [u8]> {
    if envp.is_null() {
        return None;
    }
    let mut at = envp;
    loop {
        // SAFETY: the loop has seen no NULL before `at`, so `at` is in the caller's array.
        let entry = unsafe { *at };
        if entry.is_null() {
            return None;
        }
        // SAFETY: the caller says that the entries before the NULL are C strings, and `name` has no
        // NUL.
        if unsafe { starts_with(entry, name) } {
            // SAFETY: the caller says that the entry is a C string that lives for `'a`.
            let entry = unsafe { CStr::from_ptr(entry) }.to_bytes();
            return Some(&entry[name.len()..]);
        }
        // SAFETY: this entry was not NULL, so the array has a further one.
        at = unsafe { at.add(1) };
    }
}

/// True if `s` starts with `prefix`. It does not measure `s` first: environments have long entries,
/// and the start of each process compares all of them.
///
/// # Safety
/// `s` is a C string, and `prefix` has no NUL.
unsafe fn starts_with(s: *const c_char, prefix: &[u8]) -> bool {
    // SAFETY: the comparison ends at the first difference, at the latest at the NUL that ends `s`:
    // `prefix` has no NUL.
    prefix.iter().enumerate().all(|(i, &b)| unsafe { *s.add(i) } as u8 == b)
}

/// Bytes of the longest path of a report's file, with its NUL.
pub const PATH: usize = libc::PATH_MAX as usize;

/// `file` as an absolute path, so that it is the same file after the program changes its directory.
/// None: the path is too long, or the directory has no name.
pub fn absolute(file: &[u8]) -> Option<Text<PATH>> {
    let mut path = Text::<PATH>::new();
    if !file.starts_with(b"/") {
        let mut directory = [0u8; PATH];
        // SAFETY: the pointer and the length are those of `directory`.
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
