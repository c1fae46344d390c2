//! The child's side of a comparison: one workload on one allocator, one line of JSON.

use crate::allocators;
use crate::meter::Meter;
use crate::record::ChildLine;
use crate::workloads::{self, Scale};

/// Seconds after which the system ends a child: an allocator that hangs must not hang the comparison.
fn limit(scale: Scale) -> u32 {
    if scale == Scale::Full { 300 } else { 30 }
}

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The workload
    #[arg(value_parser = workload_names())]
    pub workload: String,
    /// The allocator
    #[arg(value_parser = allocator_names())]
    pub allocator: String,
    /// How much of it
    #[arg(long, value_parser = ["full", "quick", "smoke"], default_value = "full")]
    pub scale: String,
}

/// Runs it.
///
/// # Panics
/// If the names are not those of a workload and an allocator; clap sees to it that they are.
pub fn run(options: &Options) -> ChildLine {
    let scale = match options.scale.as_str() {
        "smoke" => Scale::Smoke,
        "quick" => Scale::Quick,
        _ => Scale::Full,
    };
    // SAFETY: alarm takes a number.
    unsafe { libc::alarm(limit(scale)) };
    let contestant = allocators::find(&options.allocator).expect("clap checked the allocator");
    let workload = workloads::find((contestant.workloads)(), &options.workload)
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

/// Accepts the names of allocators, and lists them when given another.
pub fn allocator_names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(allocators::ALL.iter().map(|c| c.name))
}
