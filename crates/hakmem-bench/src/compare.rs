//! `hakmem-bench compare`: workloads × allocators, each measurement in a fresh process.

use crate::allocators;
use crate::best;
use crate::child::{Capture, ending};
use crate::executables;
use crate::growth;
use crate::machine::Build;
use crate::measure;
use crate::packaged;
use crate::probes::contender::Contender;
use crate::probes::library::{self, Library, parse_library};
use crate::probes::runner::Plan;
use crate::progress::Progress;
use crate::record::{Record, Start};
use crate::report::Summary;
use crate::sample::{Failure, ProbeSample, Sample, Series, Target, Trace};
use crate::selection::{self, Selection};
use crate::side_by_side;
use crate::targets::{self, Evidence};
use crate::tracer::{self, TraceError, Window};
use clap::builder::PossibleValuesParser;
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
    /// Only these workloads and probes (`hakmem-bench list` and `probes` show all), `workloads`,
    /// `probes` or `growth`
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = selection::names())]
    pub only: Vec<String>,
    /// Not these
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = selection::names())]
    pub skip: Vec<String>,
    /// These allocators, and libraries whose names begin so [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ALLOCATORS", value_parser = sides())]
    pub allocators: Vec<String>,
    /// Run the workloads under preloaded libraries, as programs in C would use them
    #[arg(long)]
    pub preloaded: bool,
    /// The allocator that ratios are relative to [default: mimalloc, or else the last one]
    #[arg(long, value_name = "ALLOCATOR", value_parser = sides())]
    pub base: Option<String>,
    /// One more library under which probes are taken; may be given several times
    #[arg(long = "lib", value_name = "NAME=PATH", value_parser = parse_library)]
    pub libraries: Vec<(String, PathBuf)>,
    /// Times that each measurement is taken [default: 5, or 3 with --quick]; probes and growth at
    /// most 3 times
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Print a row per workload and allocator, not only the best peer of each workload
    #[arg(long)]
    pub details: bool,
    /// Write the record with every sample to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What is compared, and what came of it so far.
struct Comparison<'a> {
    selection: &'a Selection,
    /// What the workloads run on.
    contenders: Vec<Contender<'a>>,
    /// The built-in allocators among them.
    allocators: &'a [String],
    quick: bool,
    rounds: u32,
    begun: Instant,
    samples: Vec<Sample>,
    traces: Vec<Trace>,
    probes: Vec<ProbeSample>,
    series: Vec<Series>,
    failures: Vec<Failure>,
}

/// Runs the comparison, prints its table, writes its record. `Ok(false)` if a child failed.
pub fn run(options: &Options) -> io::Result<bool> {
    let begun = Instant::now();
    let start = Start::now();
    let preloaded = options.preloaded;
    let selection = Selection::new(&options.only, &options.skip, options.quick, preloaded)?;
    executables::bring_up_to_date()?;
    let libraries = if selection.needs_libraries() {
        library::choose(&options.allocators, &options.libraries)?
    } else {
        Vec::new()
    };
    let allocators = match preloaded {
        true => Vec::new(),
        false => built_in(options, &selection)?,
    };
    let contenders: Vec<Contender> = match preloaded {
        true => libraries.iter().map(Contender::Preloaded).collect(),
        false => allocators.iter().map(|a| Contender::BuiltIn(a)).collect(),
    };
    let base = base(options, &contenders)?;
    let mut comparison = Comparison {
        selection: &selection,
        contenders,
        allocators: &allocators,
        quick: options.quick,
        rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 5 }),
        begun,
        samples: Vec::new(),
        traces: Vec::new(),
        probes: Vec::new(),
        series: Vec::new(),
        failures: Vec::new(),
    };
    let taken = comparison.take_workloads()?;
    comparison.take_probes(&libraries);
    let summary = comparison.summary(&base);
    let targets = comparison.targets(&summary);
    comparison.print(options.details, &summary, &targets);
    let good = comparison.failures.is_empty();
    if let Some(path) = &options.json {
        let kind = if preloaded { "preloaded" } else { "compare" };
        let empty = start.record(kind, taken, summary);
        let record = comparison.into_record(empty, &libraries, targets);
        record.write(path)?;
    }
    Ok(good)
}

/// Accepts the names of built-in allocators and of libraries, and lists them when given another.
fn sides() -> PossibleValuesParser {
    let built_in = allocators::ALL.iter().map(|c| c.name);
    let mut names: Vec<&str> = built_in.collect();
    for peer in packaged::ALL
        .iter()
        .flat_map(|peer| [peer.name, peer.package])
    {
        if !names.contains(&peer) {
            names.push(peer);
        }
    }
    PossibleValuesParser::new(names)
}

/// The built-in allocators asked for. The other names asked for are of libraries.
fn built_in(options: &Options, selection: &Selection) -> io::Result<Vec<String>> {
    let mut names = chosen(&options.allocators, allocators::ALL.iter().map(|c| c.name));
    names.retain(|name| allocators::find(name).is_some());
    let needed = selection.growth || !selection.workloads.is_empty();
    if names.is_empty() && needed {
        return Err(io::Error::other(
            "none of these allocators is built in: `--features peers` builds all of them in, and \
             `--preloaded` runs workloads under libraries",
        ));
    }
    Ok(names)
}

/// The allocator that ratios are relative to: the one asked for, mimalloc, or else the last one.
fn base(options: &Options, contenders: &[Contender]) -> io::Result<String> {
    let names: Vec<&str> = contenders.iter().map(Contender::name).collect();
    match &options.base {
        Some(base) if !names.contains(&base.as_str()) => Err(io::Error::other(format!(
            "--base {base} is not among the allocators compared"
        ))),
        Some(base) => Ok(base.clone()),
        None => {
            let usual = names.iter().find(|name| **name == "mimalloc");
            let base = usual.or(names.last()).copied();
            Ok(base.unwrap_or_default().to_owned())
        }
    }
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

impl Comparison<'_> {
    /// Traces the workloads, then takes their rounds until all are taken or a quick comparison is
    /// out of time. Says how many were begun.
    fn take_workloads(&mut self) -> io::Result<u32> {
        let (rounds, workloads) = (self.rounds, self.selection.workloads.len());
        let steps = workloads * self.contenders.len();
        let progress = Progress::new((rounds as usize + 1) as u64 * steps as u64);
        if !Build::is_optimised() {
            progress.say("built without optimisation: the figures mean nothing");
        }
        if workloads == 0 {
            return Ok(0);
        }
        self.trace_all(&progress)?;
        for round in 0..rounds {
            let taken = round + 1;
            progress.stage(&format!("round {taken} of {rounds}"));
            if !self.round(round, &progress)? {
                progress.say(&format!(
                    "out of time in round {taken} of {rounds}; later ones are left out"
                ));
                return Ok(taken);
            }
        }
        Ok(rounds)
    }

    /// Whether a quick comparison has no time for another round of workloads.
    fn is_out_of_time(&self) -> bool {
        let more = !self.selection.probes.is_empty() || self.selection.growth;
        let rest = if more { QUICK_REST } else { Duration::ZERO };
        self.quick && self.begun.elapsed() > QUICK_BUDGET - rest
    }

    /// Takes the probes and the curves of growth.
    fn take_probes(&mut self, libraries: &[Library]) {
        let rounds = match self.quick {
            true => 1,
            false => self.rounds.min(MOST_ROUNDS_OF_PROBES),
        };
        let plan = Plan {
            probes: &self.selection.probes,
            libraries,
            allocators: self.allocators,
            scale: if self.quick { "quick" } else { "full" },
            rounds,
        };
        let outcome = plan.run();
        (self.probes, self.series) = (outcome.samples, outcome.series);
        self.failures.extend(outcome.failures);
        if self.selection.growth {
            let curves = growth::run(self.allocators, self.quick, rounds, &mut self.failures);
            self.series.extend(curves);
        }
    }

    /// The record, of which `empty` has what does not depend on the runs.
    fn into_record(self, empty: Record, libraries: &[Library], targets: Vec<Target>) -> Record {
        Record {
            quick: self.quick,
            libraries: library::paths(libraries),
            samples: self.samples,
            traces: self.traces,
            probes: self.probes,
            series: self.series,
            targets,
            failures: self.failures,
            ..empty
        }
    }

    fn summary(&self, base: &str) -> Summary {
        let names = self.contenders.iter().map(|c| c.name().to_owned());
        let names: Vec<String> = names.collect();
        Summary::new(
            &self.selection.workloads,
            &names,
            base,
            &self.samples,
            &self.traces,
        )
    }

    fn targets(&self, summary: &Summary) -> Vec<Target> {
        targets::evaluate(&Evidence {
            summary,
            preloaded: self.selection.preloaded,
            all_workloads: self.selection.all_workloads,
            asked: &self.selection.probes,
            curves: self.selection.curves(),
            probes: &self.probes,
            series: &self.series,
        })
    }

    /// Prints the tables that have rows, and the failures.
    fn print(&self, details: bool, summary: &Summary, targets: &[Target]) {
        match best::table(summary) {
            Some(brief) if !details => print!("{brief}\n{}", summary.overall_table()),
            _ => print!("{}", summary.table()),
        }
        let mut tables = vec![side_by_side::probes(&self.selection.probes, &self.probes)];
        let curves = self.selection.curves().iter();
        tables.extend(curves.map(|c| side_by_side::curves(c, &self.series)));
        tables.push(targets::table(targets));
        for table in tables.iter().filter(|table| !table.is_empty()) {
            print!("\n{table}");
        }
        for failure in &self.failures {
            eprintln!("FAILED: {failure}");
        }
    }

    /// Counts system calls, always at the quick scale: what happens is the same, only more often.
    fn trace_all(&mut self, progress: &Progress) -> io::Result<()> {
        if !tracer::works()? {
            progress.say("system calls are not counted: this process may not trace others");
            return Ok(());
        }
        progress.stage("counting system calls");
        for workload in self.selection.workloads.clone() {
            for contender in self.contenders.clone() {
                let allocator = contender.name();
                progress.step(format!("calls of {workload} on {allocator}"));
                match trace_one(&workload, contender) {
                    Ok(trace) => self.traces.push(trace),
                    Err(what) => self.fail(&workload, allocator, format!("traced: {what}")),
                }
                progress.done();
            }
        }
        Ok(())
    }

    /// Takes every measurement once. Allocators alternate within a workload, so that a disturbance
    /// of some seconds meets all of them, and start with another one each round, so that none
    /// always runs after the same one. `Ok(false)` if time ran out.
    fn round(&mut self, round: u32, progress: &Progress) -> io::Result<bool> {
        let n = self.contenders.len();
        let scale = if self.quick { "quick" } else { "full" };
        for workload in self.selection.workloads.clone() {
            if round > 0 && self.is_out_of_time() {
                return Ok(false);
            }
            for i in 0..n {
                let contender = self.contenders[(round as usize + i) % n];
                progress.step(format!("{workload} on {}", contender.name()));
                match contender.sample(&workload, scale, round) {
                    Ok(sample) => self.samples.push(sample),
                    Err(what) => self.fail(&workload, contender.name(), what),
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

fn trace_one(workload: &str, contender: Contender<'_>) -> Result<Trace, String> {
    let output = Capture::new().map_err(|e| e.to_string())?;
    let mut command = contender
        .command(workload, "quick")
        .map_err(|e| e.to_string())?;
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
        allocator: contender.name().to_owned(),
        ops,
        calls: traced.calls,
    })
}
