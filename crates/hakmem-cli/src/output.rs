//! Files that are written at the end, tried before anything long is begun.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

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
