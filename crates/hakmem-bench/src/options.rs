//! hakmem's options in a measured process.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::ptr;

/// What the names of options begin with in the environment.
pub const PREFIX: &str = "HAKMEM_";

fn is_option(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// Starts `command` without the options of this process's environment: no figure depends on what a
/// shell has set.
pub fn remove(command: &mut Command) {
    for (name, _) in env::vars_os().filter(|(name, _)| is_option(name)) {
        command.env_remove(name);
    }
}

/// Gives hakmem the options of this process's environment, and returns them without their prefix,
/// `NAME=VALUE`. What it does not accept it says on standard error. Without options, hakmem is not
/// called.
pub fn read() -> Vec<String> {
    let mut entries: Vec<OsString> = env::vars_os()
        .filter(|(name, _)| is_option(name))
        .map(|(mut entry, value)| {
            entry.push("=");
            entry.push(value);
            entry
        })
        .collect();
    if entries.is_empty() {
        return Vec::new();
    }
    entries.sort();
    let block: Vec<CString> = entries
        .into_iter()
        .map(|e| CString::new(e.into_vec()).expect("the environment has no NUL in it"))
        .collect();
    let pointers = block.iter().map(|e| e.as_ptr());
    let pointers: Vec<_> = pointers.chain([ptr::null()]).collect();
    // SAFETY: NUL-terminated strings, and NULL behind them; all live during the call.
    unsafe { hakmem_core::c::configure(pointers.as_ptr()) };
    let name = |entry: &CString| entry.to_string_lossy()[PREFIX.len()..].to_owned();
    block.iter().map(name).collect()
}
