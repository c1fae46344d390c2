//! What single runs, probes and curves give: the parts that a record is made of.

use crate::tracer::Calls;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One figure of one probe, from a process of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbeSample {
    /// The probe.
    pub probe: String,
    /// The allocator, or the name given to the library.
    pub allocator: String,
    /// The round, from 0.
    pub round: u32,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// One curve of one allocator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Series {
    /// What is drawn: curves of the same name share a chart.
    pub name: String,
    /// The allocator, or the name given to the library.
    pub allocator: String,
    /// What x is, with its unit.
    pub x: String,
    /// What y is, with its unit.
    pub y: String,
    /// The points, by x.
    pub points: Vec<(f64, f64)>,
}

/// One thing to reach.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Target {
    /// A short name, unique in the record.
    pub name: String,
    /// What is to be reached, in words.
    pub what: String,
    /// What was reached; absent if it was not measured.
    pub figure: Option<f64>,
    /// The figure must not be above this.
    pub limit: f64,
    /// The unit of both; empty for ratios.
    pub unit: String,
    /// With what the figure was compared: the best peer's name and its figure.
    pub against: String,
}

impl Target {
    /// Whether it was reached.
    pub fn met(&self) -> bool {
        self.figure.is_some_and(|f| f <= self.limit)
    }
}

/// One timed run in a process of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    /// The workload, or the program.
    pub workload: String,
    /// The allocator, or the name given to the library.
    pub allocator: String,
    /// The round, from 0.
    pub round: u32,
    /// Operations.
    pub ops: u64,
    /// The time: of the measured part of a workload; of a program, from start to end.
    pub nanos: u64,
    /// The whole process, from start to end.
    pub wall_nanos: u64,
    /// Processor time in user mode.
    pub user_micros: u64,
    /// Processor time in the kernel.
    pub system_micros: u64,
    /// Peak resident KiB of the process (`ru_maxrss`).
    pub max_rss_kib: u64,
    /// Minor faults of the process.
    pub minor_faults: u64,
    /// Major faults of the process.
    pub major_faults: u64,
    /// What the process of a workload says of its measured part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
    /// What a program produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl Sample {
    /// A run that did nothing but take time and memory.
    pub fn of(workload: &str, allocator: &str, nanos: u64, max_rss_kib: u64) -> Self {
        Self {
            workload: workload.to_owned(),
            allocator: allocator.to_owned(),
            round: 0,
            ops: 1,
            nanos,
            wall_nanos: nanos,
            user_micros: 0,
            system_micros: 0,
            max_rss_kib,
            minor_faults: 0,
            major_faults: 0,
            inside: None,
            outcome: None,
        }
    }
}

/// Figures without the cost of the process around them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inside {
    /// Resident KiB when the measured part began.
    pub rss_start_kib: u64,
    /// Peak resident KiB above that.
    pub rss_net_kib: u64,
    /// Faults of the measured part.
    pub faults_net: u64,
}

/// What a program produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// `exit N` or `signal N`.
    pub ending: String,
    /// SHA-256 of its standard output.
    pub stdout_sha256: String,
    /// SHA-256 of its standard error.
    pub stderr_sha256: String,
}

/// System calls of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Trace {
    /// The workload, or the program.
    pub workload: String,
    /// The allocator, or the name given to the library.
    pub allocator: String,
    /// Operations, fewer than in a full timed run.
    pub ops: u64,
    /// The calls: of the measured part of a workload; of a program, all.
    pub calls: Calls,
}

/// A run that gave no figures, or a program that behaved differently.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    /// The workload, or the program.
    pub workload: String,
    /// The allocator, or the name given to the library.
    pub allocator: String,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} on {}: {}", self.workload, self.allocator, self.what)
    }
}

/// The line that a measured process prints.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChildLine {
    /// The workload.
    pub workload: String,
    /// The allocator.
    pub allocator: String,
    /// Operations.
    pub ops: u64,
    /// Nanoseconds of the measured part.
    pub nanos: u64,
    /// Resident KiB when it began.
    pub rss_start_kib: u64,
    /// Page faults in it.
    pub faults: u64,
    /// Further figures, if the workload has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<(String, f64)>,
    /// The allocator's options that the process read, `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}
