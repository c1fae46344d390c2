//! The libraries under which probes are taken, and whether one really serves a process.

use crate::executables;
use crate::packaged;
use crate::tracer;
use std::ffi::{CStr, OsStr, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What hakmem is called, preloaded or built in.
pub const HAKMEM: &str = "hakmem";
/// The runs without a library.
pub const SYSTEM: &str = "system";

/// The runs without a library in a comparison of whole programs.
pub const NONE: &str = "none";

/// What serves a probe's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Its name in tables.
    pub name: String,
    /// What is preloaded; canonical.
    pub path: Option<PathBuf>,
}

/// The value of `--lib`: a name and a canonical path.
pub fn parse_library(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("expected NAME=PATH")?;
    if name.is_empty() || path.is_empty() {
        return Err("expected NAME=PATH".to_owned());
    }
    if name == NONE {
        return Err(format!(
            "'{NONE}' is the name of the runs without a library"
        ));
    }
    // Canonical, because that is how the kernel shows it once it is mapped.
    let path = PathBuf::from(path)
        .canonicalize()
        .map_err(|e| format!("{path}: {e}"))?;
    if path
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .any(|b| b.is_ascii_whitespace() || *b == b':')
    {
        return Err(format!(
            "{}: LD_PRELOAD takes no path with blanks or colons",
            path.display()
        ));
    }
    Ok((name.to_owned(), path))
}

/// hakmem, the libraries that the system has, those in `more`, and the system's own. With
/// `allocators`, only those of them, and all in `more`.
pub fn choose(allocators: &[String], more: &[(String, PathBuf)]) -> io::Result<Vec<Library>> {
    let wanted = |name: &str| {
        let stem = name.strip_prefix("lib").unwrap_or(name);
        let begins = |a: &String| stem.starts_with(a.strip_prefix("lib").unwrap_or(a));
        allocators.is_empty() || allocators.iter().any(begins)
    };
    let mut all = Vec::new();
    let mut add = |name: &str, path: Option<PathBuf>| -> io::Result<()> {
        if all.iter().any(|l: &Library| l.name == name) {
            return Err(io::Error::other(format!(
                "two libraries are called '{name}'"
            )));
        }
        all.push(Library {
            name: name.to_owned(),
            path,
        });
        Ok(())
    };
    if wanted(HAKMEM) && !more.iter().any(|(name, _)| name == HAKMEM) {
        add(HAKMEM, Some(built()?))?;
    }
    for (name, path) in more {
        add(name, Some(path.clone()))?;
    }
    for peer in packaged::ALL {
        if let Some(path) = peer.library().filter(|_| wanted(peer.package)) {
            add(peer.package, Some(path))?;
        }
    }
    if wanted(SYSTEM) {
        add(SYSTEM, None)?;
    }
    Ok(all)
}

/// The names and paths of those that are preloaded, for a record.
pub fn paths(libraries: &[Library]) -> Vec<(String, String)> {
    let path = |l: &Library| Some((l.name.clone(), l.path.as_ref()?.display().to_string()));
    libraries.iter().filter_map(path).collect()
}

/// The library of this build, beside the executable. Under cargo it is brought up to date first:
/// `cargo run` builds the package of the program alone.
fn built() -> io::Result<PathBuf> {
    if !executables::under_cargo("hakmem-ffi", &[])? {
        return Err(io::Error::other(
            "libhakmem.so could not be built; leave the probes out with `--skip probes`",
        ));
    }
    let path = executables::folder()?.join("libhakmem.so");
    path.canonicalize().map_err(|e| {
        let path = path.display();
        io::Error::other(format!(
            "{path}: {e}; the probes need it: build it with `cargo build --release --workspace`, \
             or leave them out \
             with `--skip probes`"
        ))
    })
}

/// Whether `malloc` of this process is that of `library`, or without one, not this program's own.
/// The loader only warns of a library that it cannot use.
pub fn serves(library: Option<&Path>) -> Result<(), String> {
    let malloc = home(libc::malloc as *const c_void);
    match library {
        Some(library) if !tracer::is_mapped("self", library) => {
            Err(format!("{} was not loaded", library.display()))
        }
        Some(library) if malloc.as_deref() != Some(library) => Err(format!(
            "{} is loaded, but malloc is that of {malloc:?}",
            library.display()
        )),
        None if malloc == home(serves as *const c_void) => {
            Err("malloc is a function of this program".to_owned())
        }
        _ => Ok(()),
    }
}

/// The file that has the code at `address`.
fn home(address: *const c_void) -> Option<PathBuf> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked about; `info` has room for the answer.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: the structure is plain data, for which zeroes are a value.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own NUL-terminated string.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Path::new(OsStr::from_bytes(name.to_bytes()))
        .canonicalize()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(libraries: &[Library]) -> Vec<&str> {
        libraries.iter().map(|l| l.name.as_str()).collect()
    }

    #[test]
    fn allocators_choose_the_libraries_of_their_name_and_named_ones_always_come() {
        let more = [("mine".to_owned(), PathBuf::from("/proc/self/exe"))];
        let chosen = choose(&["system".to_owned()], &more).expect("no library is built for it");
        assert_eq!(names(&chosen), ["mine", "system"]);
        let twice = [more[0].clone(), more[0].clone()];
        assert!(choose(&["system".to_owned()], &twice).is_err());
    }

    #[test]
    fn a_library_of_the_name_takes_the_place_of_the_one_of_this_build() {
        let more = [(HAKMEM.to_owned(), PathBuf::from("/proc/self/exe"))];
        let chosen = choose(&[HAKMEM.to_owned()], &more).expect("the library is named");
        assert_eq!(names(&chosen), [HAKMEM]);
    }

    #[test]
    fn only_the_library_that_serves_is_said_to() {
        assert_eq!(serves(None), Ok(()));
        let libc = home(libc::malloc as *const c_void).expect("malloc is in a file");
        assert_eq!(serves(Some(&libc)), Ok(()));
        let other = std::env::current_exe().expect("this test has a file");
        assert!(serves(Some(&other)).is_err_and(|e| e.contains("is loaded, but")));
        let absent = Path::new("/nonexistent.so");
        assert!(serves(Some(absent)).is_err_and(|e| e.contains("not loaded")));
    }

    #[test]
    fn libraries_need_a_name_and_an_existing_path() {
        assert!(parse_library("libc.so").is_err());
        assert!(parse_library("=x").is_err());
        assert!(parse_library("none=/proc/self/exe").is_err());
        assert!(parse_library("a=/nonexistent/liba.so").is_err());
        assert!(parse_library("a=/proc/self/exe").is_ok());
    }
}
