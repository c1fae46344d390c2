//! One measured process under a library.

use super::library::{self, Library};
use crate::executables;
use crate::measure;
use crate::sample::ChildLine;
use std::io;
use std::process::Command;

/// Runs a timed probe, or a workload, under a library.
pub fn timed(
    library: &Library,
    name: &str,
    scale: &str,
    settings: impl FnOnce(&mut Command),
) -> Result<ChildLine, String> {
    let mut command = command(library, name, scale).map_err(|e| e.to_string())?;
    settings(&mut command);
    Ok(measure::run(&mut command)?.0)
}

/// The process that takes the probe `name` under a library.
pub fn command(library: &Library, name: &str, scale: &str) -> io::Result<Command> {
    let mut command = Command::new(executables::of(library::SYSTEM)?);
    measure::clean(&mut command);
    command.args(["run-probe", name, "--scale", scale]);
    if let Some(path) = &library.path {
        command.arg("--library").arg(path).env("LD_PRELOAD", path);
    }
    Ok(command)
}
