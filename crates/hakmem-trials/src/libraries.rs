//! The libraries to preload: those that are there, and whether they can be loaded.

use hakmem_bench::child::{self, Capture};
use hakmem_bench::packaged;
use hakmem_bench::probes::library::{HAKMEM, SYSTEM, parse_library};
use hakmem_bench::tracer;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One side of the comparison.
pub struct Side {
    /// What it is called.
    pub name: String,
    /// What is preloaded, if anything.
    pub library: Option<PathBuf>,
}

/// The system's allocator first, then the libraries asked for, or those found if none are.
pub fn sides(asked: &[(String, PathBuf)]) -> io::Result<Vec<Side>> {
    let libraries = if asked.is_empty() {
        found()?
    } else {
        asked.to_vec()
    };
    let mut sides = vec![Side {
        name: SYSTEM.to_owned(),
        library: None,
    }];
    for (name, path) in libraries {
        if sides.iter().any(|s| s.name == name) {
            return Err(io::Error::other(format!(
                "two libraries are called '{name}', or it is the system's name"
            )));
        }
        let side = Side {
            name,
            library: Some(path),
        };
        check_loads(&side)?;
        sides.push(side);
    }
    Ok(sides)
}

/// hakmem's library, which must be there, and those peers that are.
fn found() -> io::Result<Vec<(String, PathBuf)>> {
    let ours = ours()?;
    let mut libraries = vec![named(HAKMEM, &ours)?];
    for peer in packaged::ALL {
        match peer.library() {
            Some(path) => libraries.push(named(peer.name, &path)?),
            None if peer.built_here => {
                eprintln!("left out: {}: ci/peers/build builds it", peer.name)
            }
            None => eprintln!("left out: {}: {} is not installed", peer.name, peer.package),
        }
    }
    Ok(libraries)
}

/// hakmem's library: beside this program, or where it is installed.
pub fn ours() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let beside = program.parent().unwrap_or(Path::new("."));
    let places = [
        beside.join("libhakmem.so"),
        beside.join("../lib/libhakmem.so"),
    ];
    let found = places.into_iter().find(|path| path.exists());
    found.ok_or_else(|| {
        io::Error::other(format!(
            "no libhakmem.so in {}: build it with `cargo build --release -p hakmem-ffi`, or name \
             one with --lib",
            beside.display()
        ))
    })
}

/// The allocator that a program is linked with, if it is one of the peers: Debian's Redis has
/// jemalloc. The name of a needed library stands in the executable as it is, so there is no need to
/// understand the file.
pub fn brought_along(executable: &Path) -> Option<&'static str> {
    let bytes = fs::read(executable).ok()?;
    let has = |name: &str| bytes.windows(name.len()).any(|w| w == name.as_bytes());
    packaged::ALL
        .iter()
        .map(|peer| peer.file)
        .find(|file| has(file))
}

fn named(name: &str, path: &Path) -> io::Result<(String, PathBuf)> {
    parse_library(&format!("{name}={}", path.display())).map_err(io::Error::other)
}

/// Has this very executable preloaded with the library and look whether it is there: the loader
/// only warns of a library that it cannot use.
pub fn check_loads(side: &Side) -> io::Result<()> {
    let Some(library) = &side.library else {
        return Ok(());
    };
    let errors = Capture::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("check-preload")
        .arg(library)
        .env("LD_PRELOAD", library)
        .stderr(errors.stdio()?);
    let finished = child::run(&mut command)?;
    if finished.status.success() {
        return Ok(());
    }
    let why = errors.text()?;
    Err(io::Error::other(format!(
        "{}: {} cannot be preloaded: {}",
        side.name,
        library.display(),
        why.trim()
    )))
}

/// The child's side of that check.
pub fn check_preload(library: &Path) -> Result<(), String> {
    if tracer::is_mapped("self", library) {
        Ok(())
    } else {
        Err("it was not loaded".to_owned())
    }
}
