//! `hakmem-trials programs`: a table of real programs under several preloaded libraries.

mod gathered;
mod once;
mod server;
mod table;

use crate::executables::find;
use crate::inputs;
use crate::libraries::{self, Side};
use clap::builder::PossibleValuesParser;
use gathered::Gathered;
use hakmem_bench::probes::library::{SYSTEM, parse_library};
use hakmem_bench::progress::Progress;
use hakmem_bench::record::{Record, Start};
use hakmem_bench::report::Summary;
use hakmem_bench::targets;
use once::Ready;
use std::io;
use std::path::PathBuf;
use table::Program;

/// What to compare.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A library to preload and the name to call it by; may be given several times [default:
    /// libhakmem.so beside this program, and what is installed of jemalloc, tcmalloc, mimalloc]
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

fn names() -> PossibleValuesParser {
    crate::names::choice(table::ALL.iter().map(|p| (p.name, p.what)))
}

/// Runs the comparison, prints its table, writes its record. `Ok(false)` if a program failed or
/// behaved differently.
pub fn run(options: &Options) -> io::Result<bool> {
    let start = Start::now();
    let mut sides = libraries::sides(&options.libraries)?;
    // The base last, as in the tables of `hakmem-bench compare`.
    sides.rotate_left(1);
    let programs = installed(options);
    if programs.is_empty() {
        return Err(io::Error::other("none of these programs is installed"));
    }
    let shown: Vec<String> = programs.iter().map(|p| p.0.name.to_owned()).collect();
    let gathered = gather(options, &sides, programs)?;

    let names: Vec<String> = sides.iter().map(|s| s.name.clone()).collect();
    let summary = Summary::new(&shown, &names, SYSTEM, &gathered.samples, &gathered.traces);
    print!("{}", summary.table());
    for failure in &gathered.failures {
        println!("\nFAILED: {failure}");
    }
    let targets = targets::of_programs(&summary, options.only.is_empty());
    print!("\n{}", targets::table(&targets));
    let good = gathered.failures.is_empty();
    if let Some(path) = &options.json {
        let library = |side: &Side| {
            let path = side.library.as_ref()?.display().to_string();
            Some((side.name.clone(), path))
        };
        let record = Record {
            libraries: sides.iter().filter_map(library).collect(),
            samples: gathered.samples,
            traces: gathered.traces,
            targets,
            failures: gathered.failures,
            ..start.record("programs", options.rounds, summary)
        };
        record.write(path)?;
    }
    Ok(good)
}

/// Runs the programs on all sides, in a folder that is removed with all that they left there.
fn gather(
    options: &Options,
    sides: &[Side],
    programs: Vec<(&'static Program, PathBuf)>,
) -> io::Result<Gathered> {
    let folder = tempfile::Builder::new()
        .prefix("hakmem-trials-")
        .tempdir()?;
    let inputs = folder.path().join("inputs");
    std::fs::create_dir(&inputs)?;
    let git = programs.iter().find(|(p, _)| p.executable == "git");
    inputs::write(&inputs, git.map(|(_, path)| path.as_path()))?;
    let ready = |(program, executable)| Ready {
        program,
        executable,
        folder: folder.path(),
    };
    let ready: Vec<Ready> = programs.into_iter().map(ready).collect();

    let mut gathered = Gathered::default();
    let steps = (u64::from(options.rounds) + 1) * (sides.len() * ready.len()) as u64;
    let progress = Progress::new(steps);
    gathered.trace_all(&ready, sides, &progress)?;
    for round in 0..options.rounds {
        progress.stage(&format!("round {} of {}", round + 1, options.rounds));
        gathered.round(&ready, sides, round, &progress);
    }
    drop(progress);
    for program in &ready {
        gathered.judge(program.program, sides);
    }
    folder.close()?;
    Ok(gathered)
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
