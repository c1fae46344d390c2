//! One workload on one allocator, one line of JSON: what a measured process does, and its place on
//! the command line.

use crate::allocators;
use crate::executables;
use crate::meter::Meter;
use crate::sample::ChildLine;
use crate::workloads::{self, Scale, Workload};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The names of scales.
pub const SCALES: [&str; 3] = ["full", "quick", "smoke"];

/// Seconds after which the system ends a child: an allocator that hangs must not hang the
/// comparison.
fn limit(scale: Scale) -> u32 {
    if scale == Scale::Full { 300 } else { 120 }
}

/// Has the system end this process when it takes too long.
pub fn limit_time(scale: Scale) {
    // SAFETY: alarm takes a number.
    unsafe { libc::alarm(limit(scale)) };
}

/// The scale called `name`.
pub fn scale(name: &str) -> Option<Scale> {
    match name {
        "smoke" => Some(Scale::Smoke),
        "quick" => Some(Scale::Quick),
        "full" => Some(Scale::Full),
        _ => None,
    }
}

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The workload
    #[arg(value_parser = names_in_process())]
    pub workload: String,
    /// The allocator
    #[arg(value_parser = allocator_names())]
    pub allocator: String,
    /// How much of it
    #[arg(long, value_parser = SCALES, default_value = "full")]
    pub scale: String,
}

/// Becomes the program that runs it; returns if that is not possible.
pub fn become_it(options: &Options) -> io::Result<bool> {
    let program = executables::of(&options.allocator)?;
    let error = Command::new(&program)
        .args(["run-one", &options.workload, &options.allocator])
        .args(["--scale", &options.scale])
        .exec();
    Err(io::Error::other(format!("{}: {error}", program.display())))
}

/// Runs `workload`, compiled for the allocator of that name.
pub fn run_on(workload: &Workload, allocator: &str, scale: Scale) -> ChildLine {
    limit_time(scale);
    let ops = workload.ops_at(scale);
    let mut meter = Meter::default();
    (workload.run)(ops, &mut meter);
    ChildLine {
        workload: workload.name.to_owned(),
        allocator: allocator.to_owned(),
        ops,
        nanos: meter.time.as_nanos() as u64,
        rss_start_kib: meter.rss_start_kib,
        faults: meter.faults,
        figures: named(meter.figures),
        options: Vec::new(),
    }
}

fn named(figures: Vec<(&'static str, f64)>) -> Vec<(String, f64)> {
    let owned = |(name, value): (&str, f64)| (name.to_owned(), value);
    figures.into_iter().map(owned).collect()
}

/// Prints the line that the parent reads.
pub fn print(line: &ChildLine) -> io::Result<()> {
    println!("{}", serde_json::to_string(line)?);
    Ok(())
}

/// Accepts the names of workloads, and lists them when given another.
pub fn workload_names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(workloads::names())
}

/// Accepts the names of workloads, and those of the parts of probes and curves.
fn names_in_process() -> clap::builder::PossibleValuesParser {
    let all = workloads::names().chain(workloads::names_of_parts());
    clap::builder::PossibleValuesParser::new(all)
}

/// Accepts the names of allocators, and lists them when given another.
pub fn allocator_names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(allocators::ALL.iter().map(|c| c.name))
}
