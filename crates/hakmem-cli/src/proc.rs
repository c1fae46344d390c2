//! Whether the system's own files on processes are there: /proc.

use std::path::{Path, PathBuf};
use std::{env, io};

/// For the user to read.
pub const NOT_MOUNTED: &str = "/proc is not mounted";

pub fn is_mounted() -> bool {
    Path::new("/proc/self").exists()
}

/// The file of this command. The error is for the user to read.
pub fn own_file() -> Result<PathBuf, String> {
    env::current_exe().map_err(|e| match is_mounted() {
        true => e.to_string(),
        false => NOT_MOUNTED.into(),
    })
}

/// Why something could not be read, if it may be in /proc.
pub fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if !is_mounted() => NOT_MOUNTED.into(),
        _ => error.to_string(),
    }
}

/// The words of `/proc/PID/stat` behind the process's name. The name is in parentheses, and may
/// have any character in it.
pub fn behind_name(stat: &str) -> impl Iterator<Item = &str> {
    let words = stat.rsplit(')').next().unwrap_or_default();
    words.split_ascii_whitespace()
}

/// Names and values.
pub type Variables = Vec<(String, String)>;

/// The variables of a file as /proc/PID/environ is.
pub fn variables(text: &str) -> Variables {
    let pair = |entry: &str| {
        let (name, value) = entry.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    text.split('\0').filter_map(pair).collect()
}
