//! `hakmem-trials preload`: a whole program under several preloaded libraries.

use crate::libraries::{Side, check_loads};
use crate::outcome::{self, Verdict, outcome};
use hakmem_bench::child::{self, Capture};
use hakmem_bench::probes::library::{NONE, parse_library};
use hakmem_bench::progress::Progress;
use hakmem_bench::record::{Record, Start};
use hakmem_bench::report::Summary;
use hakmem_bench::sample::{Failure, Outcome, Sample, Trace};
use hakmem_bench::tracer::{self, TraceError, Window};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// What to compare.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A library to preload and the name to call it by; may be given several times
    #[arg(long = "lib", value_name = "NAME=PATH", required = true, value_parser = parse_library)]
    pub libraries: Vec<(String, PathBuf)>,
    /// The name that ratios are relative to
    #[arg(long, value_name = "NAME", default_value = NONE)]
    pub base: String,
    /// Times that the program runs on each library
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Write the record with every sample to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The program and its arguments; it reads nothing from its standard input
    #[arg(last = true, required = true, value_name = "PROG")]
    pub program: Vec<OsString>,
}

/// Runs the comparison, prints its table, writes its record. `Ok(false)` if the program behaved
/// differently on one of the libraries.
pub fn run(options: &Options) -> io::Result<bool> {
    let start = Start::now();
    let sides = sides(options)?;
    let program = &options.program;
    let shown = Path::new(&program[0])
        .file_name()
        .unwrap_or(&program[0])
        .to_string_lossy()
        .into_owned();
    let progress = Progress::new((u64::from(options.rounds) + 1) * sides.len() as u64);
    let traced = trace_all(&sides, program, &shown, &progress)?;
    let samples = take(options, &sides, &shown, &progress)?;
    drop(progress);

    let (traces, outcomes): (Vec<Trace>, Vec<Outcome>) = traced.into_iter().unzip();
    let names: Vec<String> = sides.iter().map(|s| s.name.clone()).collect();
    let shown = [shown];
    let summary = Summary::new(&shown, &names, &options.base, &samples, &traces);
    print!("{}", summary.table());
    let failures = judge(&names, &samples, &traces, &outcomes);
    let good = failures.is_empty();
    if let Some(path) = &options.json {
        let library = |(name, path): &(String, PathBuf)| (name.clone(), path.display().to_string());
        let record = Record {
            libraries: options.libraries.iter().map(library).collect(),
            samples,
            traces,
            failures,
            ..start.record("preload", options.rounds, summary)
        };
        record.write(path)?;
    }
    Ok(good)
}

/// Takes all timed runs; each round begins with another side.
fn take(
    options: &Options,
    sides: &[Side],
    shown: &str,
    progress: &Progress,
) -> io::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        progress.stage(&format!("round {} of {}", round + 1, options.rounds));
        for i in 0..sides.len() {
            let side = &sides[(round as usize + i) % sides.len()];
            progress.step(format!("{shown} on {}", side.name));
            samples.push(sample(side, &options.program, shown, round)?);
            progress.done();
        }
    }
    Ok(samples)
}

/// Says on which side the program behaved differently.
fn judge(
    names: &[String],
    samples: &[Sample],
    traces: &[Trace],
    outcomes: &[Outcome],
) -> Vec<Failure> {
    let traced = traces.iter().zip(outcomes);
    let traced = traced.map(|(t, o)| (t.allocator.as_str(), o));
    let timed = samples
        .iter()
        .filter_map(|s| Some((s.allocator.as_str(), s.outcome.as_ref()?)));
    let verdict = Verdict::new(NONE, names, &traced.chain(timed).collect::<Vec<_>>());
    verdict.print();
    let workload = samples.first().map_or("", |s| s.workload.as_str());
    let failure = |(name, what): &(String, String)| Failure {
        workload: workload.to_owned(),
        allocator: name.clone(),
        what: what.clone(),
    };
    verdict.differences.iter().map(failure).collect()
}

/// The runs without a library, and those with each library that can be loaded at all.
fn sides(options: &Options) -> io::Result<Vec<Side>> {
    let mut sides = vec![Side {
        name: NONE.to_owned(),
        library: None,
    }];
    for (name, path) in &options.libraries {
        if sides.iter().any(|s| s.name == *name) {
            return Err(io::Error::other(format!(
                "two libraries are called '{name}'"
            )));
        }
        sides.push(Side {
            name: name.clone(),
            library: Some(path.clone()),
        });
    }
    if !sides.iter().any(|s| s.name == options.base) {
        return Err(io::Error::other(format!(
            "--base {}: no library is called so",
            options.base
        )));
    }
    for side in &sides {
        check_loads(side)?;
    }
    Ok(sides)
}

fn command(side: &Side, program: &[OsString]) -> Command {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).stdin(Stdio::null());
    match &side.library {
        Some(path) => command.env("LD_PRELOAD", path),
        None => command.env_remove("LD_PRELOAD"),
    };
    command
}

fn started(program: &OsStr, result: io::Error) -> io::Error {
    io::Error::other(format!("cannot run {}: {result}", program.display()))
}

/// Counts system calls, and sees that the library is mapped in the program itself. What the program
/// produced counts, too: so there are two runs to compare even in a comparison of one round.
fn trace_all(
    sides: &[Side],
    program: &[OsString],
    shown: &str,
    progress: &Progress,
) -> io::Result<Vec<(Trace, Outcome)>> {
    progress.stage("counting system calls");
    let mut traces = Vec::new();
    for side in sides {
        progress.step(format!("calls of {shown} on {}", side.name));
        let (stdout, stderr) = (Capture::new()?, Capture::new()?);
        let mut command = command(side, program);
        command.stdout(stdout.stdio()?).stderr(stderr.stdio()?);
        let traced = match tracer::trace(&mut command, Window::Whole, side.library.as_deref()) {
            Ok(traced) => traced,
            Err(TraceError::Failed(error)) => return Err(started(&program[0], error)),
            Err(TraceError::Refused) => {
                progress.say(
                    "this process may not trace others: system calls are not counted, and nothing \
                     shows that the \
                     libraries are loaded by a static or setuid program",
                );
                return Ok(Vec::new());
            }
        };
        if let Some(library) = side
            .library
            .as_deref()
            .filter(|_| !traced.library_seen && lived(traced.status))
        {
            return Err(io::Error::other(format!(
                "{}: {} ran without {} (is it a static or setuid program?)",
                side.name,
                program[0].display(),
                library.display()
            )));
        }
        let trace = Trace {
            workload: shown.to_owned(),
            allocator: side.name.clone(),
            ops: 1,
            calls: traced.calls,
        };
        traces.push((trace, outcome(traced.status, stdout, stderr)?));
        progress.done();
    }
    Ok(traces)
}

/// Whether the program ended by itself. One that was killed may not have been looked at in time.
fn lived(status: ExitStatus) -> bool {
    status.code().is_some()
}

fn sample(side: &Side, program: &[OsString], shown: &str, round: u32) -> io::Result<Sample> {
    let (stdout, stderr) = (Capture::new()?, Capture::new()?);
    let mut command = command(side, program);
    command.stdout(stdout.stdio()?).stderr(stderr.stdio()?);
    let finished = child::run(&mut command).map_err(|e| started(&program[0], e))?;
    let nanos = finished.wall.as_nanos() as u64;
    let outcome = outcome(finished.status, stdout, stderr)?;
    Ok(outcome::sample(
        shown, side, round, nanos, &finished, outcome,
    ))
}
