//! The options from the environment, which is read when the program or the library starts.

use super::options::{ENVIRONMENT_READ, Error, FROM_ENVIRONMENT, PREFIX, set_exactly};
use crate::base::sync::Ordering::Relaxed;
use crate::os::{self, report};
use core::ffi::{CStr, c_char};

/// [`read`], at the first call only. A program with rights that its user does not have ignores the
/// environment. True if there are options for other modules, which read the environment at start.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, and nobody changes either during the
/// call.
#[unsafe(link_section = ".text.hot.hakmem")]
pub(crate) unsafe fn read_once(envp: *const *const c_char) -> bool {
    if envp.is_null() || ENVIRONMENT_READ.swap(true, Relaxed) || os::is_secure() {
        return false;
    }
    // SAFETY: the caller says that `envp` is NULL or a NULL-terminated array of C strings, and that
    // nobody changes either during the call.
    unsafe { read(envp) }
}

/// Reads the environment. Reports an unknown name or a bad value on standard error, and ignores it.
/// True if there are options for other modules, which read the environment at start.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, and nobody changes either during the
/// call.
#[unsafe(link_section = ".text.hot.hakmem")]
pub(crate) unsafe fn read(envp: *const *const c_char) -> bool {
    let mut others = false;
    if envp.is_null() {
        return others;
    }
    let mut at = envp;
    // SAFETY: the caller promises a NULL-terminated array, and the loop ends at the NULL. The
    // reference is only used as a pointer to the string's first byte.
    while let Some(entry) = unsafe { at.read().as_ref() } {
        // SAFETY: the caller promises that each entry is a C string, and nobody changes it during
        // the call.
        if let Some(option) = unsafe { behind_prefix(entry) } {
            others |= set_or_report(option.to_bytes()) == Reader::Other;
        }
        at = at.wrapping_add(1);
    }
    others
}

/// The text behind [`PREFIX`]. None: the string does not begin with it. Does not measure other
/// strings first: at start all of the environment passes here.
///
/// # Safety
/// `entry` is a C string that lives and does not change for `'a`.
unsafe fn behind_prefix<'a>(entry: *const c_char) -> Option<&'a CStr> {
    let mut at = entry;
    for byte in PREFIX.bytes() {
        // SAFETY: the bytes before this one are equal to those of the prefix, so none of them was
        // the terminating NUL. So this byte is part of the string, too.
        if unsafe { at.read() } as u8 != byte {
            return None;
        }
        at = at.wrapping_add(1);
    }
    // SAFETY: `at` lies inside the string, or at its NUL: it ends as `entry` does, and lives as
    // long.
    Some(unsafe { CStr::from_ptr(at) })
}

/// The module that reads an option.
#[derive(PartialEq)]
enum Reader {
    This,
    Other,
}

#[cold]
fn set_or_report(option: &[u8]) -> Reader {
    let end = option.iter().position(|&byte| byte == b'=').unwrap_or(option.len());
    let text = |part| core::str::from_utf8(part).unwrap_or("?");
    // A value that is no text is that of a file's name, or wrong: no option has the value `?`.
    let (name, value) = (text(&option[..end]), text(option.get(end + 1..).unwrap_or_default()));
    os::note_stderr();
    match set_exactly(name, value) {
        Ok(i) => {
            FROM_ENVIRONMENT.add(i);
        }
        Err(Error::AtStart) if name == "HARDENED" => {
            if !value.is_empty() {
                let why = "the program has blocks of `low`";
                report(format_args!("{PREFIX}{name}={value} ignored: {why}"));
            }
        }
        // The module that reads it reports what is wrong with it.
        Err(Error::AtStart) => return Reader::Other,
        Err(Error::Unknown) => report(format_args!("unknown option {PREFIX}{name}, ignored")),
        // As scripts and unit files write it for "not set".
        Err(_) if value.is_empty() => {}
        Err(why) => report(format_args!("{PREFIX}{name}={value} ignored: {why}")),
    }
    Reader::This
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_need_not_be_text() {
        assert!(set_or_report(b"STATS=json:/tmp/a\xff") == Reader::Other);
        assert!(set_or_report(b"ERRORS=\xff") == Reader::Other);
        assert!(set_or_report(b"DECAY_MS=\xff") == Reader::This);
        assert!(set_or_report(b"STATS=") == Reader::Other);
        assert!(set_or_report(b"\xff=1") == Reader::This);
    }
}
