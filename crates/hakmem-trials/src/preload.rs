//! `hakmem-trials preload`: a whole program under several preloaded libraries.

use hakmem_bench::child::{self, Capture, ending};
use hakmem_bench::machine::{Build, Machine};
use hakmem_bench::probes::library::{NONE, parse_library};
use hakmem_bench::progress::Progress;
use hakmem_bench::record::{
    self, Failure, Outcome, Record, SCHEMA_VERSION, Sample, Trace, unix_time,
};
use hakmem_bench::report::Summary;
use hakmem_bench::tracer::{self, TraceError, Window};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
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

/// One side of the comparison.
pub struct Side {
    /// What it is called.
    pub name: String,
    /// What is preloaded, if anything.
    pub library: Option<PathBuf>,
}

/// Runs the comparison, prints its table, writes its record. `Ok(false)` if the program behaved differently on one of
/// the libraries.
pub fn run(options: &Options) -> io::Result<bool> {
    let machine = Machine::here();
    let started = unix_time();
    let sides = sides(options)?;
    let names: Vec<String> = sides.iter().map(|s| s.name.clone()).collect();
    let program = &options.program;
    let shown = Path::new(&program[0])
        .file_name()
        .unwrap_or(&program[0])
        .to_string_lossy()
        .into_owned();

    let progress = Progress::new((u64::from(options.rounds) + 1) * sides.len() as u64);
    let traced = trace_all(&sides, program, &shown, &progress)?;
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        progress.stage(&format!("round {} of {}", round + 1, options.rounds));
        for i in 0..sides.len() {
            let side = &sides[(round as usize + i) % sides.len()];
            progress.step(format!("{shown} on {}", side.name));
            samples.push(sample(side, program, &shown, round)?);
            progress.done();
        }
    }
    drop(progress);

    let (traces, outcomes): (Vec<Trace>, Vec<Outcome>) = traced.into_iter().unzip();
    let summary = Summary::new(
        std::slice::from_ref(&shown),
        &names,
        &options.base,
        &samples,
        &traces,
    );
    print!("{}", summary.table());
    let traced = traces
        .iter()
        .zip(&outcomes)
        .map(|(t, o)| (t.allocator.as_str(), o));
    let timed = samples
        .iter()
        .filter_map(|s| Some((s.allocator.as_str(), s.outcome.as_ref()?)));
    let verdict = Verdict::new(NONE, &names, &traced.chain(timed).collect::<Vec<_>>());
    verdict.print();
    let failures = verdict.differences.iter().map(|(name, what)| Failure {
        workload: shown.clone(),
        allocator: name.clone(),
        what: what.clone(),
    });
    let failures: Vec<Failure> = failures.collect();
    let good = failures.is_empty();
    if let Some(path) = &options.json {
        let record = Record {
            schema_version: SCHEMA_VERSION,
            kind: "preload".to_owned(),
            unix_time: started,
            command: record::command(),
            quick: false,
            rounds: options.rounds,
            machine,
            build: Build::this(),
            libraries: options
                .libraries
                .iter()
                .map(|(n, p)| (n.clone(), p.display().to_string()))
                .collect(),
            summary,
            samples,
            traces,
            probes: Vec::new(),
            series: Vec::new(),
            targets: Vec::new(),
            ab: None,
            failures,
        };
        record
            .write(path)
            .map_err(|e| io::Error::other(format!("cannot write {}: {e}", path.display())))?;
    }
    Ok(good)
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

/// Has this very executable preloaded with the library and look whether it is there: the loader only warns of a
/// library that it cannot use.
pub fn check_loads(side: &Side) -> io::Result<()> {
    let Some(library) = &side.library else {
        return Ok(());
    };
    let errors = Capture::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("check-preload")
        .arg(library)
        .env("LD_PRELOAD", library)
        .stderr(errors.stdio()?);
    let finished = child::run(&mut command)?;
    if finished.status.success() {
        return Ok(());
    }
    let why = errors.text()?;
    Err(io::Error::other(format!(
        "{}: {} cannot be preloaded: {}",
        side.name,
        library.display(),
        why.trim()
    )))
}

/// The child's side of that check.
pub fn check_preload(library: &Path) -> Result<(), String> {
    if tracer::is_mapped("self", library) {
        Ok(())
    } else {
        Err("it was not loaded".to_owned())
    }
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

/// Counts system calls, and sees that the library is mapped in the program itself. What the program produced counts,
/// too: so there are two runs to compare even in a comparison of one round.
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
                    "this process may not trace others: system calls are not counted, and nothing shows that the \
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
    let usage = finished.usage;
    let nanos = finished.wall.as_nanos() as u64;
    Ok(Sample {
        workload: shown.to_owned(),
        allocator: side.name.clone(),
        round,
        ops: 1,
        nanos,
        wall_nanos: nanos,
        user_micros: usage.user_us,
        system_micros: usage.system_us,
        max_rss_kib: usage.max_rss_kib,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        inside: None,
        outcome: Some(outcome(finished.status, stdout, stderr)?),
    })
}

/// What a run that ended so produced.
pub fn outcome(status: ExitStatus, stdout: Capture, stderr: Capture) -> io::Result<Outcome> {
    Ok(Outcome {
        ending: ending(status),
        stdout_sha256: sha256(stdout)?,
        stderr_sha256: sha256(stderr)?,
    })
}

fn sha256(output: Capture) -> io::Result<String> {
    let mut hash = Sha256::new();
    sha256_into(&mut hash, output.reader()?)?;
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Adds everything that `reader` gives.
pub fn sha256_into(hash: &mut Sha256, mut reader: impl Read) -> io::Result<()> {
    let mut buffer = [0; 1 << 16];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(()),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// How the program behaved on each library, compared with how it behaves without one.
pub struct Verdict {
    /// Name and difference.
    pub differences: Vec<(String, String)>,
    /// Aspects that vary even without a library, and so prove nothing.
    pub unsteady: Vec<&'static str>,
}

/// One aspect of an outcome.
type Aspect = (&'static str, fn(&Outcome) -> &str);

impl Verdict {
    /// Compares outcomes, each with the name of its side, with those of the side called `base`.
    pub fn new(base: &str, names: &[String], outcomes: &[(&str, &Outcome)]) -> Self {
        let aspects: [Aspect; 3] = [
            ("exit status", |o| &o.ending),
            ("standard output", |o| &o.stdout_sha256),
            ("standard error", |o| &o.stderr_sha256),
        ];
        let mut verdict = Self {
            differences: Vec::new(),
            unsteady: Vec::new(),
        };
        for (what, of) in aspects {
            let seen = |name: &str| -> BTreeSet<&str> {
                let mine = outcomes.iter().filter(|(n, _)| *n == name);
                mine.map(|(_, outcome)| of(outcome)).collect()
            };
            let expected = seen(base);
            if expected.len() > 1 {
                verdict.unsteady.push(what);
                continue;
            }
            for name in names {
                let unexpected: Vec<&str> = seen(name).difference(&expected).copied().collect();
                if !unexpected.is_empty() {
                    let expected: Vec<&str> = expected.iter().copied().collect();
                    let text = format!(
                        "{what}: {} instead of {}",
                        unexpected.join(", "),
                        expected.join(", ")
                    );
                    verdict.differences.push((name.clone(), text));
                }
            }
        }
        verdict
    }

    fn print(&self) {
        for what in &self.unsteady {
            println!("\nThe {what} differs between runs without a library, so it is not compared.");
        }
        for (name, what) in &self.differences {
            println!("\nDIFFERENT on {name}: {what}");
        }
        if self.differences.is_empty() && self.unsteady.is_empty() {
            println!("\nExit status and output are the same on all.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(ending: &str, stdout: &str) -> Outcome {
        Outcome {
            ending: ending.into(),
            stdout_sha256: stdout.into(),
            stderr_sha256: String::new(),
        }
    }

    fn verdict(runs: &[(&str, &str, &str)]) -> Verdict {
        let outcomes: Vec<_> = runs
            .iter()
            .map(|(name, end, out)| (*name, outcome(end, out)))
            .collect();
        let outcomes: Vec<_> = outcomes
            .iter()
            .map(|(name, outcome)| (*name, outcome))
            .collect();
        Verdict::new(NONE, &["none".into(), "a".into()], &outcomes)
    }

    #[test]
    fn one_bad_run_in_many_is_a_difference() {
        let v = verdict(&[
            ("none", "exit 0", "x"),
            ("a", "exit 0", "x"),
            ("a", "signal 11", "x"),
        ]);
        assert_eq!(
            v.differences,
            [(
                "a".to_owned(),
                "exit status: signal 11 instead of exit 0".to_owned()
            )]
        );
    }

    #[test]
    fn output_that_varies_by_itself_is_not_held_against_a_library() {
        let v = verdict(&[
            ("none", "exit 0", "x"),
            ("none", "exit 0", "y"),
            ("a", "exit 0", "z"),
        ]);
        assert!(v.differences.is_empty());
        assert_eq!(v.unsteady, ["standard output"]);
    }
}
