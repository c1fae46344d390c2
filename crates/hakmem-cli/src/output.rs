//! What is written: to standard output, and to files, which are tried before anything long is
//! begun.

use crate::{checked, inherited};
use std::fs::{self, File, OpenOptions};
use std::io::{self, StdoutLock, Write};
use std::path::Path;

/// Standard output; an error if it is closed.
pub fn stdout() -> io::Result<StdoutLock<'static>> {
    match inherited::was_closed(1) {
        true => Err(io::Error::other("standard output is closed")),
        false => Ok(io::stdout().lock()),
    }
}

/// Writes all of it to standard output.
pub fn print(text: &[u8]) -> io::Result<()> {
    let mut stdout = stdout()?;
    stdout.write_all(text)?;
    stdout.flush()
}

/// The same for what is all that a command has to say. A reader that has seen enough is no failure;
/// the error is for the user to read.
pub fn show(text: &[u8]) -> Result<(), String> {
    match print(text) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot write: {e}")),
        _ => Ok(()),
    }
}

/// A new file, or an empty one in place of what was there.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    checked::open_now(options.write(true).create(true).truncate(true), path)
}

/// Whether the file can be written. One that was not there is not there afterwards; one that was
/// stays as it is. The error is for the user to read.
pub fn tried(path: &Path) -> Result<(), String> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    let tried = match made {
        Ok(_) => fs::remove_file(path),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => existing(path),
        Err(e) => Err(e),
    };
    tried.map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn existing(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?;
    // To open a pipe is to wait for its reader.
    if kind.is_file() || kind.is_dir() {
        OpenOptions::new().write(true).open(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        tried(&file).unwrap();
        assert!(!file.exists());
        fs::write(&file, "text").unwrap();
        tried(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"text");
        tried(folder.path()).unwrap_err();
        let why = tried(&folder.path().join("no/file")).unwrap_err();
        assert!(why.contains("cannot write"), "{why}");
        tried(Path::new("/dev/null")).unwrap();
    }
}
