//! The format of a record: everything a comparison saw, as JSON.

use crate::machine::{Build, Machine};
use crate::pairs::Ab;
use crate::paths::Paths;
use crate::report::Summary;
use crate::sample::{Failure, ProbeSample, Sample, Series, Target, Trace};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Raised whenever a reader of older records would misread a new one.
pub const SCHEMA_VERSION: u32 = 1;

/// One comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// `compare`, `preloaded`, `preload`, `programs` or `ab`.
    pub kind: String,
    /// When it began, in seconds since 1970.
    pub unix_time: u64,
    /// The command line.
    pub command: Vec<String>,
    /// Whether the short counts were used.
    pub quick: bool,
    /// Rounds begun.
    pub rounds: u32,
    /// The machine.
    pub machine: Machine,
    /// The build.
    pub build: Build,
    /// The libraries of a `preload` or `programs` comparison: name and path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<(String, String)>,
    /// Medians and ratios.
    pub summary: Summary,
    /// Every timed run.
    pub samples: Vec<Sample>,
    /// Every traced run.
    pub traces: Vec<Trace>,
    /// Single figures of probes: what is wanted of an allocator beside time and peak memory of a
    /// workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeSample>,
    /// Curves: memory over time, time by threads, time by live blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// What is to be reached, and what was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// The two sides of an `ab` comparison, and what came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ab: Option<Ab>,
    /// Everything that went wrong, in words.
    pub failures: Vec<Failure>,
}

impl Record {
    /// Writes the record to `path`, without the paths of this machine.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let paths = Paths::here();
        let mut record = self.clone();
        for (_, library) in &mut record.libraries {
            *library = paths.portable(Path::new(library));
        }
        let failures = record.failures.iter_mut().map(|f| &mut f.what);
        for text in record.command.iter_mut().chain(failures) {
            *text = paths.in_text(text);
        }
        let write = || {
            let mut out = BufWriter::new(File::create(path)?);
            serde_json::to_writer_pretty(&mut out, &record)?;
            out.write_all(b"\n")?;
            out.flush()
        };
        write().map_err(|e| io::Error::other(format!("cannot write {}: {e}", path.display())))
    }
}

/// What a comparison notes when it begins.
#[derive(Debug)]
pub struct Start {
    unix_time: u64,
    machine: Machine,
}

impl Start {
    /// Now and here.
    pub fn now() -> Self {
        Self {
            unix_time: unix_time(),
            machine: Machine::here(),
        }
    }

    /// The record of a comparison that began so. The caller adds what else it has.
    pub fn record(self, kind: &str, rounds: u32, summary: Summary) -> Record {
        Record {
            schema_version: SCHEMA_VERSION,
            kind: kind.to_owned(),
            unix_time: self.unix_time,
            command: command(),
            quick: false,
            rounds,
            machine: self.machine,
            build: Build::this(),
            libraries: Vec::new(),
            summary,
            samples: Vec::new(),
            traces: Vec::new(),
            probes: Vec::new(),
            series: Vec::new(),
            targets: Vec::new(),
            ab: None,
            failures: Vec::new(),
        }
    }
}

/// The command line of this program.
fn command() -> Vec<String> {
    let words = std::env::args_os();
    words.map(|a| a.to_string_lossy().into_owned()).collect()
}

/// Now, in seconds since 1970.
pub fn unix_time() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}
