//! The child's side of a probe: whatever serves `malloc` here is what is measured.

use super::{library, memory};
use crate::run_one;
use crate::workloads::{self, Scale};
use std::alloc::System;
use std::io;
use std::path::PathBuf;

/// What to run.
#[derive(Debug)]
pub struct Options {
    /// The probe, or a workload
    pub name: String,
    /// The library that should serve this process
    pub library: Option<PathBuf>,
    /// How much of it
    pub scale: Scale,
}

/// Runs it and prints a line of JSON, if it is timed.
pub fn run(options: &Options) -> io::Result<()> {
    library::serves(options.library.as_deref()).map_err(io::Error::other)?;
    if let Some(body) = memory::find(&options.name) {
        run_one::limit_time(options.scale);
        body.run(options.scale);
        // All has been said. What a library does at the end of a process is no part of a probe, and
        // rpmalloc's crashes now and then after many threads.
        // SAFETY: ends the process, and runs nothing first.
        unsafe { libc::_exit(0) };
    }
    let name = options.name.as_str();
    let Some(workload) = workloads::table::<System>().any(name) else {
        return Err(io::Error::other(format!("there is no probe '{name}'")));
    };
    run_one::print(&run_one::run_on(workload, library::SYSTEM, options.scale))
}
