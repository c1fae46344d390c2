//! The child's side of a probe: whatever serves `malloc` here is what is measured.

use super::{library, memory, timed};
use crate::growth;
use crate::run_one::{self, scale_names};
use crate::workloads;
use std::alloc::System;
use std::io;
use std::path::PathBuf;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The probe, or a workload
    pub name: String,
    /// The library that should serve this process
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// How much of it
    #[arg(long, value_parser = scale_names(), default_value = "full")]
    pub scale: String,
}

/// Runs it and prints a line of JSON, if it is timed.
pub fn run(options: &Options) -> io::Result<()> {
    library::serves(options.library.as_deref()).map_err(io::Error::other)?;
    let scale = run_one::scale(&options.scale);
    if let Some(body) = memory::find(&options.name) {
        run_one::limit_time(scale);
        body.run(scale);
        return Ok(());
    }
    let name = options.name.as_str();
    if workloads::table::<System>().any(name).is_none() {
        return Err(io::Error::other(format!("there is no probe '{name}'")));
    }
    let line = run_one::run(&run_one::Options {
        workload: options.name.clone(),
        allocator: library::SYSTEM.to_owned(),
        scale: options.scale.clone(),
    });
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}

/// Names that `run-one` takes besides those of workloads.
pub fn names_of_parts() -> impl Iterator<Item = &'static str> {
    let parts = [growth::steps::<System>(), timed::table::<System>()];
    parts.into_iter().flatten().map(|w| w.name)
}
