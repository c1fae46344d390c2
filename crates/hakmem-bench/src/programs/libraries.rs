//! The libraries that are compared when none are named.

use crate::preload::parse_library;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Other allocators as distributions install them: name and file.
const PEERS: [(&str, &str); 3] = [
    ("jemalloc", "libjemalloc.so.2"),
    ("tcmalloc", "libtcmalloc_minimal.so.4"),
    ("mimalloc2", "libmimalloc.so.2"),
];

/// hakmem's library, which must be there, and those peers that are.
pub fn found() -> io::Result<Vec<(String, PathBuf)>> {
    let ours = ours()?;
    let mut libraries = vec![named("hakmem", &ours)?];
    for (name, file) in PEERS {
        match folders()
            .into_iter()
            .map(|folder| folder.join(file))
            .find(|path| path.exists())
        {
            Some(path) => libraries.push(named(name, &path)?),
            None => eprintln!("left out: {name}: {file} is not installed"),
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
    PEERS.iter().map(|(_, file)| *file).find(|file| has(file))
}

/// Where the loader of this kind of machine finds libraries.
fn folders() -> [PathBuf; 5] {
    let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    [
        multiarch.as_str(),
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
        "/lib",
    ]
    .map(PathBuf::from)
}

fn named(name: &str, path: &Path) -> io::Result<(String, PathBuf)> {
    parse_library(&format!("{name}={}", path.display())).map_err(io::Error::other)
}
