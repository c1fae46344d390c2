//! The programs of this build beside this one: they are measured, so they must be of the same
//! sources.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The features that this program was built with; the measured ones get the same.
const FEATURES: [(&str, bool); 8] = [
    ("default", cfg!(feature = "default")),
    ("peers", cfg!(feature = "peers")),
    ("mimalloc", cfg!(feature = "mimalloc")),
    ("rpmalloc", cfg!(feature = "rpmalloc")),
    ("jemalloc", cfg!(feature = "jemalloc")),
    ("snmalloc", cfg!(feature = "snmalloc")),
    ("rusty_alloc", cfg!(feature = "rusty_alloc")),
    ("bench-fast", cfg!(feature = "bench-fast")),
];

/// The program that measures `allocator`, by the name of its file.
pub fn name_of(allocator: &str) -> String {
    format!("hakmem-run-{allocator}")
}

/// The program that measures `allocator`: beside this one.
pub fn of(allocator: &str) -> io::Result<PathBuf> {
    let path = folder()?.join(name_of(allocator));
    if path.is_file() {
        return Ok(path);
    }
    let path = path.display();
    Err(io::Error::other(format!(
        "{path} is missing: build it with `cargo build --release --package hakmem-bench`"
    )))
}

/// The folder of this program.
pub fn folder() -> io::Result<PathBuf> {
    let executable = std::env::current_exe()?;
    Ok(executable.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Under `cargo run`, which builds this program alone, builds the ones that are measured.
pub fn bring_up_to_date() -> io::Result<()> {
    let features = FEATURES.iter().filter(|(_, on)| *on);
    let features: Vec<&str> = features.map(|(name, _)| *name).collect();
    let features = features.join(",");
    let arguments = ["--bins", "--no-default-features", "--features", &features];
    if under_cargo("hakmem-bench", &arguments)? {
        return Ok(());
    }
    Err(io::Error::other(
        "the programs to be measured could not be built",
    ))
}

/// Builds parts of the workspace with the profile of this program, if it was started by cargo;
/// `Ok(false)` if that failed.
pub fn under_cargo(package: &str, arguments: &[&str]) -> io::Result<bool> {
    let Some(cargo) = std::env::var_os("CARGO") else {
        return Ok(true);
    };
    let folder = folder()?;
    let profile = match folder.file_name().map(OsStr::as_bytes) {
        Some(b"debug") | None => OsStr::new("dev"),
        Some(name) => OsStr::from_bytes(name),
    };
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", package, "--profile"])
        .arg(profile)
        .args(arguments)
        .arg("--target-dir")
        .arg(folder.parent().unwrap_or(&folder))
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .status()?;
    Ok(status.success())
}
