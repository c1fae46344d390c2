//! `hakmem-bench compare`: workloads × allocators, each measurement in a fresh process.

use crate::allocators;
use crate::best;
use crate::child::{self, Capture, ending};
use crate::growth;
use crate::machine::{Build, Machine};
use crate::preload::parse_library;
use crate::probes::library;
use crate::probes::runner::{Outcome, Plan};
use crate::progress::Progress;
use crate::record::{ChildLine, Failure, Inside, Record, SCHEMA_VERSION, Sample, Trace, unix_time};
use crate::report::Summary;
use crate::run_one;
use crate::selection::{self, Selection};
use crate::side_by_side;
use crate::targets::{self, Evidence};
use crate::tracer::{self, TraceError, Window};
use std::io;
use std::path::PathBuf;
use std::process::Command;
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
            command: std::env::args().collect(),
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
        for workload in self.workloads.clone() {
            if self.quick && round > 0 && start.elapsed() > self.budget {
                return Ok(false);
            }
            for i in 0..n {
                let allocator = self.allocators[(round as usize + i) % n].clone();
                progress.step(format!("{workload} on {allocator}"));
                match self.sample(&workload, &allocator, round) {
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

    fn sample(&self, workload: &str, allocator: &str, round: u32) -> Result<Sample, String> {
        let output = Capture::new().map_err(|e| e.to_string())?;
        let scale = if self.quick { "quick" } else { "full" };
        let mut command =
            run_one_command(workload, allocator, scale, &output).map_err(|e| e.to_string())?;
        let (line, finished) = run_to_line(&mut command, output)?;
        let usage = finished.usage;
        Ok(Sample {
            workload: workload.to_owned(),
            allocator: allocator.to_owned(),
            round,
            ops: line.ops,
            nanos: line.nanos,
            wall_nanos: finished.wall.as_nanos() as u64,
            user_micros: usage.user_us,
            system_micros: usage.system_us,
            max_rss_kib: usage.max_rss_kib,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            inside: Some(Inside {
                rss_start_kib: line.rss_start_kib,
                rss_net_kib: usage.max_rss_kib.saturating_sub(line.rss_start_kib),
                faults_net: line.faults,
            }),
            outcome: None,
        })
    }
}

fn trace_one(workload: &str, allocator: &str) -> Result<Trace, String> {
    let output = Capture::new().map_err(|e| e.to_string())?;
    let mut command =
        run_one_command(workload, allocator, "quick", &output).map_err(|e| e.to_string())?;
    let traced = tracer::trace(&mut command, Window::Marked, None).map_err(|e| match e {
        TraceError::Refused => "tracing was refused".to_owned(),
        TraceError::Failed(e) => e.to_string(),
    })?;
    if !traced.status.success() {
        return Err(ending(traced.status));
    }
    let ops = child_line(output)?.ops;
    Ok(Trace {
        workload: workload.to_owned(),
        allocator: allocator.to_owned(),
        ops,
        calls: traced.calls,
    })
}

fn run_one_command(
    workload: &str,
    allocator: &str,
    scale: &str,
    output: &Capture,
) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    // A preloaded allocator would take the place of the one that is to be measured as the system's.
    command
        .args(["run-one", workload, allocator, "--scale", scale])
        .env_remove("LD_PRELOAD")
        .stdout(output.stdio()?);
    Ok(command)
}

/// Runs one measurement in a process of its own, where only what it says of itself is of interest.
pub(crate) fn measure_one(name: &str, allocator: &str, scale: &str) -> Result<ChildLine, String> {
    let output = Capture::new().map_err(|e| e.to_string())?;
    let mut command =
        run_one_command(name, allocator, scale, &output).map_err(|e| e.to_string())?;
    Ok(run_to_line(&mut command, output)?.0)
}

/// Runs a command that prints one line of figures; its words on standard error become part of an error.
pub(crate) fn run_child(command: &mut Command) -> Result<ChildLine, String> {
    let (output, errors) = (Capture::new(), Capture::new());
    let (output, errors) = (
        output.map_err(|e| e.to_string())?,
        errors.map_err(|e| e.to_string())?,
    );
    command
        .stdout(output.stdio().map_err(|e| e.to_string())?)
        .stderr(errors.stdio().map_err(|e| e.to_string())?);
    run_to_line(command, output)
        .map(|(line, _)| line)
        .map_err(|what| match errors.text() {
            Ok(words) if !words.trim().is_empty() => format!("{what}: {}", words.trim()),
            _ => what,
        })
}

fn run_to_line(
    command: &mut Command,
    output: Capture,
) -> Result<(ChildLine, child::Finished), String> {
    let finished = child::run(command).map_err(|e| e.to_string())?;
    if !finished.status.success() {
        return Err(ending(finished.status));
    }
    Ok((child_line(output)?, finished))
}

fn child_line(output: Capture) -> Result<ChildLine, String> {
    let text = output.text().map_err(|e| e.to_string())?;
    serde_json::from_str(&text)
        .map_err(|e| format!("the child's report cannot be read ({e}): {text:?}"))
}
