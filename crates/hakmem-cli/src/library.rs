//! Finding libhakmem.so and naming it in a way that the dynamic loader understands.

use crate::proc;
use crate::program::Machine;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

const NAME: &str = "libhakmem.so";
const HARDENED: &str = "libhakmem-hardened.so";

/// What to do about a missing library.
const MISSING: &str = "--lib PATH names one";
const MISSING_HARDENED: &str = "./install.sh builds and installs it; or build it by cargo build \
     --release -p hakmem-ffi --features hardened --target-dir target/hardened, and name it by \
     --lib target/hardened/release/libhakmem.so";

/// The library, and what it is built for.
#[derive(Debug)]
pub struct Library {
    pub path: PathBuf,
    pub machine: Machine,
}

/// The library given by the user, or else the one beside this executable. The error is for the user
/// to read.
pub fn find(given: Option<&Path>) -> Result<Library, String> {
    find_named(given, NAME)
}

/// [`find`] for the hardened build of the library.
pub fn find_hardened() -> Result<Library, String> {
    find_named(None, HARDENED)
}

fn find_named(given: Option<&Path>, name: &str) -> Result<Library, String> {
    let places = match given {
        Some(path) => vec![path.to_path_buf()],
        None => beside(&proc::own_file().map_err(|why| not_looked(&why))?, name),
    };
    for place in &places {
        match fs::metadata(place) {
            Ok(meta) if meta.is_file() => return open(place),
            Ok(_) if given.is_some() => return Err(format!("{} is not a file", place.display())),
            Err(e) if e.kind() != io::ErrorKind::NotFound && given.is_some() => {
                return Err(format!("cannot read {}: {e}", place.display()));
            }
            _ => {}
        }
    }
    let advice = match name {
        HARDENED => MISSING_HARDENED,
        _ => MISSING,
    };
    let looked = match given {
        Some(path) => path.display().to_string(),
        None => format!("{name} in {}", folders(&places)),
    };
    Err(format!("library not found; looked for {looked} ({advice})"))
}

/// Where files lie.
fn folders(files: &[PathBuf]) -> String {
    let folder = |file: &PathBuf| Some(file.parent()?.display().to_string());
    let all: Vec<_> = files.iter().filter_map(folder).collect();
    match all.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => all.join(""),
    }
}

/// Why the places of the library are not known.
fn not_looked(why: &str) -> String {
    format!(
        "library not found: the command does not know its own folder, because {why} ({MISSING})"
    )
}

fn beside(executable: &Path, name: &str) -> Vec<PathBuf> {
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let prefix = folder.parent().unwrap_or(Path::new("/"));
    let lib = prefix.join("lib");
    // Packages keep it in the last: that path is the same on every processor.
    vec![
        folder.join(name),
        lib.join(name),
        lib.join("hakmem").join(name),
    ]
}

fn open(path: &Path) -> Result<Library, String> {
    let cannot = |e: &dyn std::fmt::Display| format!("cannot use {}: {e}", path.display());
    // The program may change its working directory before it starts others.
    let path = path.canonicalize().map_err(|e| cannot(&e))?;
    let machine = Machine::of_library(&path).map_err(|e| cannot(&e))?;
    Ok(Library { path, machine })
}

/// Whether the loader would take the path apart: LD_PRELOAD is split at spaces and colons, and `$`
/// starts a variable.
fn is_divisible(path: &Path) -> bool {
    path.as_os_str()
        .as_bytes()
        .iter()
        .any(|b| b" :$".contains(b))
}

/// A value for LD_PRELOAD that names the library first. The folder `scratch`, if there is one,
/// takes a link where the path itself will not do.
pub fn preload(
    library: &Path,
    scratch: Option<&Path>,
    existing: Option<&OsStr>,
) -> Result<OsString, String> {
    let mut name = library.to_path_buf();
    if is_divisible(&name) {
        let refused = |paths: &str| {
            let refused = "LD_PRELOAD takes no path with a space, colon or dollar sign";
            format!("{refused}: {paths}")
        };
        let Some(scratch) = scratch else {
            return Err(refused(&library.display().to_string()));
        };
        let link = scratch.join(NAME);
        if is_divisible(&link) {
            let (library, link) = (library.display(), link.display());
            return Err(refused(&format!("{library}, {link}")));
        }
        std::os::unix::fs::symlink(&name, &link)
            .map_err(|e| format!("cannot link to the library: {e}"))?;
        name = link;
    }
    let mut value = name.into_os_string();
    if let Some(existing) = existing.filter(|e| !e.is_empty()) {
        value.push(":");
        value.push(existing);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_its_own_folder_and_then_in_lib() {
        let places = beside(Path::new("/opt/h/bin/hakmem"), NAME);
        assert_eq!(
            places,
            [
                Path::new("/opt/h/bin/libhakmem.so"),
                Path::new("/opt/h/lib/libhakmem.so"),
                Path::new("/opt/h/lib/hakmem/libhakmem.so")
            ]
        );
    }

    #[test]
    fn the_name_is_said_once() {
        let places = beside(Path::new("/opt/h/bin/hakmem"), NAME);
        assert_eq!(
            folders(&places),
            "/opt/h/bin, /opt/h/lib and /opt/h/lib/hakmem"
        );
        assert_eq!(folders(&places[..1]), "/opt/h/bin");
    }

    #[test]
    fn comes_before_what_is_preloaded_already() {
        let value = |existing| preload(Path::new("/x/libhakmem.so"), None, existing).unwrap();
        assert_eq!(value(None), "/x/libhakmem.so");
        assert_eq!(value(Some(OsStr::new(""))), "/x/libhakmem.so");
        assert_eq!(
            value(Some(OsStr::new("a.so b.so"))),
            "/x/libhakmem.so:a.so b.so"
        );
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_reached_by_a_link() {
        let scratch = tempfile::tempdir().unwrap();
        for path in [
            "/a b/libhakmem.so",
            "/a:b/libhakmem.so",
            "/a$b/libhakmem.so",
        ] {
            let link = scratch.path().join(NAME);
            assert_eq!(
                preload(Path::new(path), Some(scratch.path()), None).unwrap(),
                link
            );
            assert_eq!(fs::read_link(&link).unwrap(), Path::new(path));
            fs::remove_file(&link).unwrap();
            for folder in [None, Some(Path::new("/t m p"))] {
                preload(Path::new(path), folder, None).unwrap_err();
            }
        }
    }
}
