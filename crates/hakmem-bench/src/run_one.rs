//! The child's side of a comparison: one workload on one allocator, one line of JSON.

use crate::allocators;
use crate::meter::Meter;
use crate::record::ChildLine;
use crate::workloads::{self, Scale};

/// Seconds after which the system ends a child: an allocator that hangs must not hang the comparison.
fn limit(scale: Scale) -> u32 {
    if scale == Scale::Full { 300 } else { 30 }
}

/// Has the system end this process when it takes too long.
pub fn limit_time(scale: Scale) {
    // SAFETY: alarm takes a number.
    unsafe { libc::alarm(limit(scale)) };
}

/// The names of scales.
pub fn scale_names() -> clap::builder::PossibleValuesParser {
    ["full", "quick", "smoke"].into()
}

/// The scale called `name`.
pub fn scale(name: &str) -> Scale {
    match name {
        "smoke" => Scale::Smoke,
        "quick" => Scale::Quick,
        _ => Scale::Full,
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
    #[arg(long, value_parser = scale_names(), default_value = "full")]
    pub scale: String,
}

/// Runs it.
///
/// # Panics
/// If the names are not those of a workload and an allocator; clap sees to it that they are.
pub fn run(options: &Options) -> ChildLine {
    let scale = scale(&options.scale);
    limit_time(scale);
    let contestant = allocators::find(&options.allocator).expect("clap checked the allocator");
    let workload = (contestant.workloads)()
        .any(&options.workload)
        .expect("clap checked the workload");
    let ops = workload.ops_at(scale);
    let mut meter = Meter::default();
    (workload.run)(ops, &mut meter);
    ChildLine {
        workload: workload.name.to_owned(),
        allocator: contestant.name.to_owned(),
        ops,
        nanos: meter.time.as_nanos() as u64,
        rss_start_kib: meter.rss_start_kib,
        faults: meter.faults,
    }
}

/// Accepts the names of workloads, and lists them when given another.
pub fn workload_names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(workloads::names())
}

/// Accepts the names of workloads, and those of the parts of probes and curves.
fn names_in_process() -> clap::builder::PossibleValuesParser {
    let all = workloads::names().chain(crate::probes::child::names_of_parts());
    clap::builder::PossibleValuesParser::new(all)
}

/// Accepts the names of allocators, and lists them when given another.
pub fn allocator_names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(allocators::ALL.iter().map(|c| c.name))
}
