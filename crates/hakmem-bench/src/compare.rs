//! `hakmem-bench compare`: workloads × allocators, each measurement in a fresh process.

use crate::allocators;
use crate::best;
use crate::child::{Capture, ending};
use crate::executables;
use crate::growth;
use crate::machine::{Build, Machine};
use crate::measure;
use crate::probes::library::{self, parse_library};
use crate::probes::runner::{Outcome, Plan};
use crate::progress::Progress;
use crate::record::{self, Record, SCHEMA_VERSION, unix_time};
use crate::report::Summary;
use crate::run_one;
use crate::sample::{Failure, Sample, Trace};
use crate::selection::{self, Selection};
use crate::side_by_side;
use crate::targets::{self, Evidence};
use crate::tracer::{self, TraceError, Window};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// When a quick comparison starts no further measurement once each has been taken once.
const QUICK_BUDGET: Duration = Duration::from_secs(48);
/// What of that the probes and the curves need.
const QUICK_REST: Duration = Duration::from_secs(12);
/// Probes and curves are taken at most so many times: some last for seconds.
const MOST_ROUNDS_OF_PROBES: u32 = 3;

/// What to compare.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Short runs and few rounds: ends within 60 seconds; for a look, not for a record
    #[arg(long)]
    pub quick: bool,
    /// Only these workloads and probes (`hakmem-bench list` and `probes` show all), `workloads`, `probes` or `growth`
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = selection::names())]
    pub only: Vec<String>,
    /// Not these
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = selection::names())]
    pub skip: Vec<String>,
    /// These allocators [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ALLOCATORS", value_parser = run_one::allocator_names())]
    pub allocators: Vec<String>,
    /// The allocator that ratios are relative to [default: mimalloc, or else the last one]
    #[arg(long, value_name = "ALLOCATOR", value_parser = run_one::allocator_names())]
    pub base: Option<String>,
    /// One more library under which probes are taken; may be given several times
    #[arg(long = "lib", value_name = "NAME=PATH", value_parser = parse_library)]
    pub libraries: Vec<(String, PathBuf)>,
    /// Times that each measurement is taken [default: 5, or 3 with --quick]; probes and growth at most 3 times
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Print a row per workload and allocator, not only the best peer of each workload
    #[arg(long)]
    pub details: bool,
    /// Write the record with every sample to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

struct Comparison {
    workloads: Vec<String>,
    allocators: Vec<String>,
    quick: bool,
    budget: Duration,
    samples: Vec<Sample>,
    traces: Vec<Trace>,
    failures: Vec<Failure>,
}

/// Runs the comparison, prints its table, writes its record. `Ok(false)` if a child failed.
pub fn run(options: &Options) -> io::Result<bool> {
    let start = Instant::now();
    let started = unix_time();
    let machine = Machine::here();
    let allocators = chosen(&options.allocators, allocators::ALL.iter().map(|c| c.name));
    let base = match &options.base {
        Some(base) if !allocators.contains(base) => {
            return Err(io::Error::other(format!(
                "--base {base} is not among the allocators compared"
            )));
        }
        Some(base) => base.clone(),
        None => allocators
            .iter()
            .find(|a| *a == "mimalloc")
            .or(allocators.last())
            .cloned()
            .unwrap_or_default(),
    };
    let selection = Selection::new(&options.only, &options.skip, options.quick)?;
    executables::bring_up_to_date()?;
    let libraries = if selection.needs_libraries() {
        library::choose(&options.allocators, &options.libraries)?
    } else {
        Vec::new()
    };
    let more = !selection.probes.is_empty() || selection.growth;
    let mut comparison = Comparison {
        workloads: selection.workloads.clone(),
        allocators,
        quick: options.quick,
        budget: QUICK_BUDGET - if more { QUICK_REST } else { Duration::ZERO },
        samples: Vec::new(),
        traces: Vec::new(),
        failures: Vec::new(),
    };
    let rounds = options.rounds.unwrap_or(if options.quick { 3 } else { 5 });
    let steps = comparison.workloads.len() * comparison.allocators.len();
    let progress = Progress::new((rounds as usize + 1) as u64 * steps as u64);
    if !Build::is_optimised() {
        progress.say("built without optimisation: the figures mean nothing");
    }

    if !comparison.workloads.is_empty() {
        comparison.trace_all(&progress)?;
    }
    let mut taken = 0;
    for round in 0..rounds {
        if comparison.workloads.is_empty() {
            break;
        }
        progress.stage(&format!("round {} of {rounds}", round + 1));
        taken = round + 1;
        if !comparison.round(round, start, &progress)? {
            progress.say(&format!(
                "out of time in round {taken} of {rounds}; later ones are left out"
            ));
            break;
        }
    }
    drop(progress);

    let Comparison {
        workloads,
        allocators,
        samples,
        traces,
        mut failures,
        ..
    } = comparison;
    let probe_rounds = match options.quick {
        true => 1,
        false => rounds.min(MOST_ROUNDS_OF_PROBES),
    };
    let Outcome {
        samples: probes,
        mut series,
        failures: failed_probes,
    } = Plan {
        probes: &selection.probes,
        libraries: &libraries,
        allocators: &allocators,
        scale: if options.quick { "quick" } else { "full" },
        rounds: probe_rounds,
    }
    .run();
    failures.extend(failed_probes);
    if selection.growth {
        series.extend(growth::run(
            &allocators,
            options.quick,
            probe_rounds,
            &mut failures,
        ));
    }

    let summary = Summary::new(&workloads, &allocators, &base, &samples, &traces);
    match best::table(&summary) {
        Some(brief) if !options.details => print!("{brief}\n{}", summary.overall_table()),
        _ => print!("{}", summary.table()),
    }
    let good = failures.is_empty();
    let reached = targets::evaluate(&Evidence {
        summary: &summary,
        all_workloads: selection.all_workloads,
        asked: &selection.probes,
        curves: selection.curves(),
        probes: &probes,
        series: &series,
    });
    let mut tables = vec![side_by_side::probes(&selection.probes, &probes)];
    tables.extend(
        selection
            .curves()
            .iter()
            .map(|c| side_by_side::curves(c, &series)),
    );
    tables.push(targets::table(&reached));
    for table in tables.iter().filter(|table| !table.is_empty()) {
        print!("\n{table}");
    }
    for failure in &failures {
        eprintln!(
            "FAILED: {} on {}: {}",
            failure.workload, failure.allocator, failure.what
        );
    }
    if let Some(path) = &options.json {
        let record = Record {
            schema_version: SCHEMA_VERSION,
            kind: "compare".to_owned(),
            unix_time: started,
            command: record::command(),
            quick: options.quick,
            rounds: taken,
            machine,
            build: Build::this(),
            libraries: library::paths(&libraries),
            summary,
            samples,
            traces,
            probes,
            series,
            targets: reached,
            ab: None,
            failures,
        };
        record
            .write(path)
            .map_err(|e| io::Error::other(format!("cannot write {}: {e}", path.display())))?;
    }
    Ok(good)
}

/// The names asked for, each once, or all.
fn chosen<'a>(asked: &[String], all: impl Iterator<Item = &'a str>) -> Vec<String> {
    if asked.is_empty() {
        return all.map(str::to_owned).collect();
    }
    let mut names: Vec<String> = Vec::new();
    for name in asked {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

impl Comparison {
    /// Counts system calls, always at the quick scale: what happens is the same, only more often.
    fn trace_all(&mut self, progress: &Progress) -> io::Result<()> {
        if !tracer::works()? {
            progress.say("system calls are not counted: this process may not trace others");
            return Ok(());
        }
        progress.stage("counting system calls");
        for workload in self.workloads.clone() {
            for allocator in self.allocators.clone() {
                progress.step(format!("calls of {workload} on {allocator}"));
                match trace_one(&workload, &allocator) {
                    Ok(trace) => self.traces.push(trace),
                    Err(what) => self.fail(&workload, &allocator, format!("traced: {what}")),
                }
                progress.done();
            }
        }
        Ok(())
    }

    /// Takes every measurement once. Allocators alternate within a workload, so that a disturbance of some seconds
    /// meets all of them, and start with another one each round, so that none always runs after the same one.
    /// `Ok(false)` if time ran out.
    fn round(&mut self, round: u32, start: Instant, progress: &Progress) -> io::Result<bool> {
        let n = self.allocators.len();
        let scale = if self.quick { "quick" } else { "full" };
        for workload in self.workloads.clone() {
            if self.quick && round > 0 && start.elapsed() > self.budget {
                return Ok(false);
            }
            for i in 0..n {
                let allocator = self.allocators[(round as usize + i) % n].clone();
                progress.step(format!("{workload} on {allocator}"));
                match measure::one(&workload, &allocator, scale, round) {
                    Ok(sample) => self.samples.push(sample),
                    Err(what) => self.fail(&workload, &allocator, what),
                }
                progress.done();
            }
        }
        Ok(true)
    }

    fn fail(&mut self, workload: &str, allocator: &str, what: String) {
        self.failures.push(Failure {
            workload: workload.to_owned(),
            allocator: allocator.to_owned(),
            what,
        });
    }
}

fn trace_one(workload: &str, allocator: &str) -> Result<Trace, String> {
    let output = Capture::new().map_err(|e| e.to_string())?;
    let mut command = measure::command(workload, allocator, "quick").map_err(|e| e.to_string())?;
    command.stdout(output.stdio().map_err(|e| e.to_string())?);
    let traced = tracer::trace(&mut command, Window::Marked, None).map_err(|e| match e {
        TraceError::Refused => "tracing was refused".to_owned(),
        TraceError::Failed(e) => e.to_string(),
    })?;
    if !traced.status.success() {
        return Err(ending(traced.status));
    }
    let ops = measure::line(output)?.ops;
    Ok(Trace {
        workload: workload.to_owned(),
        allocator: allocator.to_owned(),
        ops,
        calls: traced.calls,
    })
}
