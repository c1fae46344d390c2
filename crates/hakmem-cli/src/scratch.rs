//! A private folder for as long as a program runs: for what the program on hakmem reports, and for
//! a link to the library.
//!
//! A program that root starts may change its user, and writes its report as that user. So if this
//! process is root's, other users may pass through the folder and write to the files, but only
//! those who know a file's name: they cannot list the folder, and the name has a random part. What
//! is in the files is read as a text from anybody, in any case.

use std::fmt::Write;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{env, io};
use tempfile::TempDir;

/// Where the folder is made if the system's temporary folder cannot be written: a container with a
/// root that is read only mostly has this one.
const MEMORY: &str = "/dev/shm";

/// The rights to the folder; and those to it and to its files, if this process is root's.
const PRIVATE: u32 = 0o700;
const PASSED: u32 = 0o711;
const WRITTEN: u32 = 0o622;

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
        // TMPDIR may be relative, and the program may change its working directory.
        let folder = tempfile::Builder::new()
            .prefix("hakmem-")
            .permissions(Permissions::from_mode(PRIVATE))
            .tempdir_in(place.canonicalize()?)?;
        let path = folder.path().to_owned();
        if is_root() {
            // Whoever has the place might have put a link there.
            let mut options = OpenOptions::new();
            options.read(true);
            options.custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
            let made = options.open(&path)?;
            if made.metadata()?.uid() != 0 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            made.set_permissions(Permissions::from_mode(PASSED))?;
        }
        Ok(Self { folder, path })
    }

    pub fn folder(&self) -> &Path {
        &self.path
    }

    /// An empty file for what the program reports. Its name begins with `name`. The error is for
    /// the user to read.
    pub fn file(&self, name: &str) -> Result<PathBuf, String> {
        let made = || {
            let path = self.path.join(format!("{name}-{}", random()?));
            let file = File::create_new(&path)?;
            if is_root() {
                file.set_permissions(Permissions::from_mode(WRITTEN))?;
            }
            Ok(path)
        };
        let folder = self.path.display();
        made().map_err(|e: io::Error| format!("cannot make a file in {folder}: {e}"))
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

fn is_root() -> bool {
    // SAFETY: always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// A part of a name that nobody can guess.
fn random() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    // SAFETY: the array has room for what is asked for.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) != Ok(bytes.len()) {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
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
        assert_ne!(scratch.file("report").unwrap(), file);
        scratch.close().unwrap();
        assert!(!file.exists());
    }
}
