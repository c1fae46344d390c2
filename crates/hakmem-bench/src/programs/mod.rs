//! `hakmem-bench programs`: a table of real programs under several preloaded libraries.

mod inputs;
mod libraries;
mod once;
mod server;
mod table;

use crate::machine::{Build, Machine};
use crate::preload::{Side, Verdict, check_loads, parse_library};
use crate::progress::Progress;
use crate::record::{Failure, Outcome, Record, SCHEMA_VERSION, Sample, Trace, unix_time};
use crate::report::Summary;
use crate::tracer;
use once::Ready;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use table::Program;

/// The name of the runs without a library.
const SYSTEM: &str = "system";

/// What to compare.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A library to preload and the name to call it by; may be given several times
    /// [default: libhakmem.so beside this program, and what is installed of jemalloc, tcmalloc, mimalloc]
    #[arg(long = "lib", value_name = "NAME=PATH", value_parser = parse_library)]
    pub libraries: Vec<(String, PathBuf)>,
    /// Times that each program runs on each library
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Only these programs
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS", value_parser = names())]
    pub only: Vec<String>,
    /// Write the record with every sample to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(
        table::ALL
            .iter()
            .map(|p| clap::builder::PossibleValue::new(p.name).help(p.what)),
    )
}

/// Finds an executable. Where the system keeps its own comes first: what stands before it in `PATH` may be a wrapper,
/// a script whose shell would be measured, too.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/bin", "/usr/local/bin", "/bin"].map(PathBuf::from);
    system
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// All that a comparison gathers.
#[derive(Default)]
struct Gathered {
    samples: Vec<Sample>,
    traces: Vec<Trace>,
    /// What traced runs produced, by program and side.
    produced: Vec<(&'static str, String, Outcome)>,
    failures: Vec<Failure>,
}

/// Runs the comparison, prints its table, writes its record. `Ok(false)` if a program failed or behaved differently.
pub fn run(options: &Options) -> io::Result<bool> {
    let machine = Machine::here();
    let started = unix_time();
    let sides = sides(options)?;
    let programs = installed(options);
    if programs.is_empty() {
        return Err(io::Error::other("none of these programs is installed"));
    }
    // Removed when it goes out of scope, with all that the programs left there.
    let folder = tempfile::Builder::new().prefix("hakmem-bench-").tempdir()?;
    let inputs = folder.path().join("inputs");
    std::fs::create_dir(&inputs)?;
    let git = programs
        .iter()
        .find(|(p, _)| p.executable == "git")
        .map(|(_, path)| path.as_path());
    inputs::write(&inputs, git)?;
    let ready: Vec<Ready> = programs
        .into_iter()
        .map(|(program, executable)| Ready {
            program,
            executable,
            folder: folder.path(),
        })
        .collect();

    let mut gathered = Gathered::default();
    let steps = (u64::from(options.rounds) + 1) * (sides.len() * ready.len()) as u64;
    let progress = Progress::new(steps);
    gathered.trace_all(&ready, &sides, &progress)?;
    for round in 0..options.rounds {
        progress.stage(&format!("round {} of {}", round + 1, options.rounds));
        gathered.round(&ready, &sides, round, &progress);
    }
    drop(progress);
    for program in &ready {
        gathered.judge(program.program, &sides);
    }

    let shown: Vec<String> = ready.iter().map(|r| r.program.name.to_owned()).collect();
    let names: Vec<String> = sides.iter().map(|s| s.name.clone()).collect();
    let summary = Summary::new(&shown, &names, SYSTEM, &gathered.samples, &gathered.traces);
    print!("{}", summary.table());
    for failure in &gathered.failures {
        println!(
            "\nFAILED: {} on {}: {}",
            failure.workload, failure.allocator, failure.what
        );
    }
    folder.close()?;
    let good = gathered.failures.is_empty();
    if let Some(path) = &options.json {
        let library = |side: &Side| {
            Some((
                side.name.clone(),
                side.library.as_ref()?.display().to_string(),
            ))
        };
        let record = Record {
            schema_version: SCHEMA_VERSION,
            kind: "programs".to_owned(),
            unix_time: started,
            command: env::args_os()
                .map(|a| a.to_string_lossy().into_owned())
                .collect(),
            quick: false,
            rounds: options.rounds,
            machine,
            build: Build::this(),
            libraries: sides.iter().filter_map(library).collect(),
            summary,
            samples: gathered.samples,
            traces: gathered.traces,
            probes: Vec::new(),
            series: Vec::new(),
            targets: Vec::new(),
            failures: gathered.failures,
        };
        record
            .write(path)
            .map_err(|e| io::Error::other(format!("cannot write {}: {e}", path.display())))?;
    }
    Ok(good)
}

/// The libraries asked for or found, and the runs without one at the end.
fn sides(options: &Options) -> io::Result<Vec<Side>> {
    let libraries = if options.libraries.is_empty() {
        libraries::found()?
    } else {
        options.libraries.clone()
    };
    let mut sides: Vec<Side> = Vec::new();
    for (name, path) in libraries {
        if name == SYSTEM || sides.iter().any(|s| s.name == name) {
            return Err(io::Error::other(format!(
                "two libraries are called '{name}', or it is the system's name"
            )));
        }
        let side = Side {
            name,
            library: Some(path),
        };
        check_loads(&side)?;
        sides.push(side);
    }
    sides.push(Side {
        name: SYSTEM.to_owned(),
        library: None,
    });
    Ok(sides)
}

/// The programs asked for that are installed; says which are not.
fn installed(options: &Options) -> Vec<(&'static Program, PathBuf)> {
    let wanted =
        |p: &&Program| options.only.is_empty() || options.only.iter().any(|name| name == p.name);
    let mut programs = Vec::new();
    for program in table::ALL.iter().filter(wanted) {
        let missing = program.needs.iter().find(|name| find(name).is_none());
        match (find(program.executable), missing) {
            (Some(path), None) => {
                if let Some(library) = libraries::brought_along(&path) {
                    eprintln!(
                        "{} is linked with {library}: that is what '{SYSTEM}' means for it",
                        program.name
                    );
                }
                programs.push((program, path));
            }
            (None, _) => eprintln!(
                "left out: {}: {} is not installed",
                program.name, program.executable
            ),
            (_, Some(other)) => eprintln!("left out: {}: {other} is not installed", program.name),
        }
    }
    programs
}

impl Gathered {
    fn fail(&mut self, program: &str, side: &str, what: String) {
        let failure = Failure {
            workload: program.to_owned(),
            allocator: side.to_owned(),
            what,
        };
        self.failures.push(failure);
    }

    fn trace_all(
        &mut self,
        ready: &[Ready],
        sides: &[Side],
        progress: &Progress,
    ) -> io::Result<()> {
        if !tracer::works()? {
            progress.say(
                "this process may not trace others: system calls are not counted, and nothing shows that the libraries \
                 are loaded by the programs",
            );
            return Ok(());
        }
        progress.stage("counting system calls");
        for program in ready {
            for side in sides {
                let name = program.program.name;
                progress.step(format!("calls of {name} on {}", side.name));
                match program.trace(side) {
                    Ok(None) => {}
                    Ok(Some((trace, outcome))) => {
                        self.traces.push(trace);
                        self.produced.push((name, side.name.clone(), outcome));
                    }
                    Err(what) => self.fail(name, &side.name, format!("traced: {what}")),
                }
                progress.done();
            }
        }
        Ok(())
    }

    /// Runs everything once; the sides alternate, and start with another one each round.
    fn round(&mut self, ready: &[Ready], sides: &[Side], round: u32, progress: &Progress) {
        for program in ready {
            for i in 0..sides.len() {
                let side = &sides[(round as usize + i) % sides.len()];
                let name = program.program.name;
                progress.step(format!("{name} on {}", side.name));
                match program.sample(side, round) {
                    Ok(sample) => self.samples.push(sample),
                    Err(what) => self.fail(name, &side.name, what),
                }
                progress.done();
            }
        }
    }

    /// Compares what a program produced with what it produces on the system's allocator, and takes out the samples of
    /// runs that did not end well: their time is that of something else.
    fn judge(&mut self, program: &'static Program, sides: &[Side]) {
        let name = program.name;
        let names: Vec<String> = sides.iter().map(|s| s.name.clone()).collect();
        let traced = self
            .produced
            .iter()
            .filter(|(p, ..)| *p == name)
            .map(|(_, side, o)| (side.as_str(), o));
        let timed = self.samples.iter().filter(|s| s.workload == name);
        let timed = timed.filter_map(|s| Some((s.allocator.as_str(), s.outcome.as_ref()?)));
        let outcomes: Vec<(&str, &Outcome)> = traced.chain(timed).collect();
        let verdict = Verdict::new(SYSTEM, &names, &outcomes);
        let mut failures: Vec<(String, String)> = verdict.differences;
        match program.unsteady {
            Some(why) => {
                failures.retain(|(_, what)| what.starts_with("exit status"));
                println!("The output of {name} is not compared: {why}.");
            }
            None => {
                for aspect in verdict.unsteady {
                    println!(
                        "The {aspect} of {name} differs between runs on the system's allocator, and is not compared."
                    );
                }
            }
        }
        let ended_badly = outcomes
            .iter()
            .find(|(side, o)| *side == SYSTEM && o.ending != "exit 0");
        if let Some((side, outcome)) = ended_badly {
            failures.push(((*side).to_owned(), outcome.ending.clone()));
        }
        self.samples.retain(|s| {
            s.workload != name || s.outcome.as_ref().is_none_or(|o| o.ending == "exit 0")
        });
        for (side, what) in failures {
            self.fail(name, &side, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(side: &str, ending: &str, stdout: &str) -> Sample {
        Sample {
            workload: "sort".to_owned(),
            allocator: side.to_owned(),
            round: 0,
            ops: 1,
            nanos: 1,
            wall_nanos: 1,
            user_micros: 1,
            system_micros: 1,
            max_rss_kib: 1,
            minor_faults: 1,
            major_faults: 0,
            inside: None,
            outcome: Some(Outcome {
                ending: ending.to_owned(),
                stdout_sha256: stdout.to_owned(),
                stderr_sha256: String::new(),
            }),
        }
    }

    fn judged(name: &str, samples: Vec<Sample>) -> Gathered {
        let side = |name: &str| Side {
            name: name.to_owned(),
            library: None,
        };
        let mut gathered = Gathered {
            samples,
            ..Gathered::default()
        };
        let program = table::ALL
            .iter()
            .find(|p| p.name == name)
            .expect("it is in the table");
        gathered.judge(program, &[side("a"), side(SYSTEM)]);
        gathered
    }

    #[test]
    fn a_run_that_was_killed_is_a_failure_and_no_figure() {
        let g = judged(
            "sort",
            vec![sample("a", "signal 11", "x"), sample(SYSTEM, "exit 0", "x")],
        );
        assert_eq!((g.samples.len(), g.failures.len()), (1, 1));
        assert_eq!(g.failures[0].allocator, "a");
        assert!(g.failures[0].what.contains("signal 11"));
    }

    #[test]
    fn another_output_is_a_failure_but_the_time_counts() {
        let g = judged(
            "sort",
            vec![sample("a", "exit 0", "y"), sample(SYSTEM, "exit 0", "x")],
        );
        assert_eq!((g.samples.len(), g.failures.len()), (2, 1));
        assert!(g.failures[0].what.starts_with("standard output"));
    }

    #[test]
    fn a_program_that_fails_on_the_system_is_no_success() {
        let g = judged(
            "sort",
            vec![sample("a", "exit 1", "x"), sample(SYSTEM, "exit 1", "x")],
        );
        assert!(g.samples.is_empty());
        assert_eq!(g.failures[0].allocator, SYSTEM);
    }

    #[test]
    fn executables_are_found_and_folders_are_none() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert!(find("no-such-program").is_none() && find(".").is_none());
    }
}
