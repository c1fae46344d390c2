//! The libraries that are compared when none are named.

use hakmem_bench::packaged;
use hakmem_bench::probes::library::parse_library;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// hakmem's library, which must be there, and those peers that are.
pub fn found() -> io::Result<Vec<(String, PathBuf)>> {
    let ours = ours()?;
    let mut libraries = vec![named("hakmem", &ours)?];
    for peer in packaged::ALL {
        match peer.library() {
            Some(path) => libraries.push(named(peer.name, &path)?),
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
            "no libhakmem.so in {}: build it with `cargo build --release -p hakmem-ffi`, or name one with --lib",
            beside.display()
        ))
    })
}

/// The allocator that a program is linked with, if it is one of the peers: Debian's Redis has jemalloc. The name of a
/// needed library stands in the executable as it is, so there is no need to understand the file.
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
