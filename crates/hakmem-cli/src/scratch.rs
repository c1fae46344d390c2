//! A private folder for as long as a program runs: for what the program on hakmem reports, and for
//! a link to the library.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::{env, io};
use tempfile::TempDir;

/// Where the folder is made if the system's temporary folder cannot be written: a container with a
/// root that is read only mostly has this one.
const MEMORY: &str = "/dev/shm";

/// Removed when dropped.
pub struct Scratch {
    folder: TempDir,
    path: PathBuf,
}

impl Scratch {
    /// The error is for the user to read, and names the folders that were tried.
    pub fn new() -> Result<Self, String> {
        let mut refused = Vec::new();
        for place in places(env::temp_dir()) {
            match Self::below(&place) {
                Ok(scratch) => return Ok(scratch),
                Err(e) => refused.push(format!("in {} ({})", place.display(), e.kind())),
            }
        }
        let refused = refused.join(" or ");
        Err(format!("cannot make a temporary folder {refused}"))
    }

    fn below(place: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("hakmem-")
            .tempdir_in(place)?;
        // TMPDIR may be relative, and the program may change its working directory.
        let path = folder.path().canonicalize()?;
        Ok(Self { folder, path })
    }

    pub fn folder(&self) -> &Path {
        &self.path
    }

    /// An empty file for what the program reports. The error is for the user to read.
    pub fn file(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.path.join(name);
        File::create_new(&path).map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        Ok(path)
    }

    /// Leaves the folder and its files to the processes that go on.
    pub fn keep(self) {
        let _ = self.folder.keep();
    }

    /// The error is for the user to read.
    pub fn close(self) -> Result<(), String> {
        let removed = self.folder.close();
        removed.map_err(|e| format!("cannot remove {}: {e}", self.path.display()))
    }
}

/// The folders to be tried, each once.
fn places(usual: PathBuf) -> Vec<PathBuf> {
    let mut all = vec![usual, MEMORY.into()];
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_folder_is_tried_twice() {
        assert_eq!(places("/t".into()), [Path::new("/t"), Path::new(MEMORY)]);
        assert_eq!(places(MEMORY.into()), [Path::new(MEMORY)]);
    }

    #[test]
    fn the_folder_goes_with_its_files() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::below(place.path()).unwrap();
        let file = scratch.file("report").unwrap();
        assert!(file.starts_with(scratch.folder()) && file.exists());
        scratch.close().unwrap();
        assert!(!file.exists());
    }
}
