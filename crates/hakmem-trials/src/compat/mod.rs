//! `hakmem-trials compat`: a matrix of real programs and allocators, whose results are compared and
//! put on record.
//!
//! A program is a script (`scripts`, `table`). A `scenario` runs it, the `runner` stands between
//! script and program, `tree` finds and ends processes, `proof` reads hakmem's own account,
//! `verdict` compares, `page` writes.

mod install;
mod page;
mod proof;
mod results;
pub mod runner;
mod scenario;
mod table;
mod tree;
mod verdict;

use crate::libraries::{Side, sides};
use crate::outcome::sha256_into;
use clap::builder::PossibleValuesParser;
use hakmem_bench::machine::Machine;
use hakmem_bench::packaged;
use hakmem_bench::probes::library::{HAKMEM, SYSTEM, parse_library};
use hakmem_bench::record::unix_time;
use install::Installer;
use results::{Results, Run};
use scenario::{Finished, Stage, hex, script};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use table::Program;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A library to preload and the name to call it by; may be given several times [default:
    /// libhakmem.so beside this program, and what is installed of jemalloc, tcmalloc, mimalloc]
    #[arg(long = "lib", value_name = "NAME=PATH", value_parser = parse_library)]
    libraries: Vec<(String, PathBuf)>,
    /// Times that each program runs on each allocator
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Only these programs; results of others stay
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS", value_parser = names())]
    only: Vec<String>,
    /// Make only runs that are not on record for the same script and library
    #[arg(long)]
    resume: bool,
    /// Install the packages that are missing, those of the other allocators too
    #[arg(long)]
    install: bool,
    /// Write the page from what is on record, and run nothing
    #[arg(long)]
    page_only: bool,
    /// The page; the record lies beside it, ending in .tsv
    #[arg(long, default_value = "docs/compatibility.md", value_name = "FILE")]
    page: PathBuf,
}

fn names() -> PossibleValuesParser {
    crate::names::choice(table::ALL.iter().map(|p| (p.name, p.what)))
}

/// Runs the matrix. `Ok(false)` if a failure is hakmem's alone, or nothing could be compared.
pub fn run(options: &Options) -> io::Result<bool> {
    let record = options.page.with_extension("tsv");
    let mut results = Results::read(&record)?;
    if !options.page_only {
        run_all(options, &mut results, &record)?;
    }
    let alone = write(&results, &options.page)?;
    for failure in &alone {
        println!("FAILED: {failure}");
    }
    println!("written: {}", options.page.display());
    Ok(alone.is_empty())
}

/// Writes the page; returns what is hakmem's failure alone.
fn write(results: &Results, page: &Path) -> io::Result<Vec<String>> {
    let mut sides: Vec<String> = results.libraries.keys().cloned().collect();
    sides.sort_by_key(|s| (s != SYSTEM, s != HAKMEM, s.clone()));
    let (text, alone) = page::page(results, &sides);
    results::replace(page, &text)?;
    Ok(alone)
}

fn run_all(options: &Options, results: &mut Results, record: &Path) -> io::Result<()> {
    tree::adopt_orphans()?;
    // Packages before anything else: inputs are made with git.
    let installer = Installer::new(options.install);
    if options.install && options.libraries.is_empty() {
        for peer in packaged::ALL.iter().filter(|p| !p.built_here) {
            if let Err(why) = installer.install_missing(&[peer.package]) {
                eprintln!("{}: {why}", peer.package);
            }
        }
    }
    let mut sides = sides(&options.libraries)?;
    let hashes: BTreeMap<String, String> = sides
        .iter()
        .map(|s| Ok((s.name.clone(), hash(s)?)))
        .collect::<io::Result<_>>()?;
    results.libraries = sides
        .iter()
        .map(|s| (s.name.clone(), described(s)))
        .collect();
    results.machine = Some(Machine::here());
    let wanted = table::ALL
        .iter()
        .filter(|p| options.only.is_empty() || options.only.iter().any(|o| o == p.name));
    let mut programs = Vec::new();
    for program in wanted {
        results.missing.remove(program.name);
        match installer.provide(program) {
            Ok(versions) => {
                results.versions.insert(program.name.to_owned(), versions);
                programs.push(program);
            }
            Err(why) => {
                eprintln!("left out: {}: {why}", program.name);
                results.missing.insert(program.name.to_owned(), why);
            }
        }
        // What no longer counts goes; with --resume only what was of other scripts or libraries.
        let now = script(program);
        let stays = |r: &Run| {
            options.resume && r.script == now && hashes.get(&r.side).is_none_or(|h| *h == r.library)
        };
        results
            .runs
            .retain(|r| r.program != program.name || stays(r));
    }
    results.write(record)?;
    let stage = Stage::new(&mut sides)?;
    end_on_signals(stage.folder())?;
    let matrix = Matrix {
        options,
        stage: &stage,
        sides: &sides,
        hashes: &hashes,
        record,
    };
    for program in programs {
        matrix.run(program, results)?;
    }
    Ok(())
}

/// What the runs of all programs share.
struct Matrix<'a> {
    options: &'a Options,
    stage: &'a Stage,
    sides: &'a [Side],
    hashes: &'a BTreeMap<String, String>,
    record: &'a Path,
}

impl Matrix<'_> {
    /// Makes all runs of a program that are not on record, and writes the page.
    fn run(&self, program: &'static Program, results: &mut Results) -> io::Result<()> {
        let now = script(program);
        let due = |results: &Results, side: &Side, round| {
            let library = &self.hashes[&side.name];
            !results.has(program.name, &side.name, round, &now, library)
        };
        let rounds = self.options.rounds;
        if !(0..rounds).any(|round| self.sides.iter().any(|side| due(results, side, round))) {
            return Ok(());
        }
        if let Err(why) = self.stage.set_up(program) {
            eprintln!("left out: {}: {why}", program.name);
            results.missing.insert(program.name.to_owned(), why);
            return results.write(self.record);
        }
        let mut system: Option<String> = None;
        for round in 0..rounds {
            // The sides alternate; the system's first run comes first, so that the others' outputs
            // can be held against it.
            for i in 0..self.sides.len() {
                let side = &self.sides[(round as usize + i) % self.sides.len()];
                if due(results, side, round) {
                    results
                        .runs
                        .push(self.one(program, side, round, &mut system)?);
                    results.unix_time = unix_time();
                    results.write(self.record)?;
                }
            }
        }
        let alone = write(results, &self.options.page)?;
        let here = alone.iter().filter(|a| a.starts_with(program.name));
        here.for_each(|failure| eprintln!("FAILED: {failure}"));
        Ok(())
    }

    /// Makes one run. `system` is the output of the first run on the system's allocator.
    fn one(
        &self,
        program: &'static Program,
        side: &Side,
        round: u32,
        system: &mut Option<String>,
    ) -> io::Result<Run> {
        let Finished { mut run, output } = self.stage.run(program, side, round)?;
        run.library.clone_from(&self.hashes[&side.name]);
        if side.name == SYSTEM {
            system.get_or_insert(output);
        } else if let Some(line) = system.as_deref().and_then(|s| first_difference(s, &output)) {
            run.note = format!("{line}; {}", run.note);
        }
        let (name, ending, seconds) = (program.name, &run.ending, run.seconds);
        let number = round + 1;
        eprintln!(
            "{name} on {}, run {number}: {ending}, {seconds:.1} s",
            side.name
        );
        Ok(run)
    }
}

/// The first line in which two outputs differ.
fn first_difference(expected: &str, got: &str) -> Option<String> {
    let (mut a, mut b) = (expected.lines(), got.lines());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return None,
            (x, y) if x == y => {}
            (x, y) => {
                let cut = |line: Option<&str>| {
                    line.map_or("nothing".to_owned(), |l| {
                        format!("'{}'", l.chars().take(120).collect::<String>())
                    })
                };
                return Some(format!("{} instead of {}", cut(y), cut(x)));
            }
        }
    }
}

fn hash(side: &Side) -> io::Result<String> {
    let Some(library) = &side.library else {
        return Ok(String::new());
    };
    let mut hash = Sha256::new();
    sha256_into(&mut hash, File::open(library)?)?;
    Ok(hex(hash))
}

/// What a side is: the file, and the version where it is known.
fn described(side: &Side) -> String {
    let Some(library) = &side.library else {
        return "no library".to_owned();
    };
    let file = library
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if side.name == HAKMEM {
        format!("{file} {}", env!("CARGO_PKG_VERSION"))
    } else {
        install::owner(library).unwrap_or(file)
    }
}

/// When this program is told to end, everything that it started ends first.
fn end_on_signals(folder: &Path) -> io::Result<()> {
    let folder = folder.to_owned();
    // SAFETY: the set is initialised by sigemptyset before anything reads it; the rest takes
    // numbers.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::other("signals cannot be blocked"));
        }
        set
    };
    std::thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: the set was made above; the number is alive.
        unsafe { libc::sigwait(&raw const set, &raw mut signal) };
        tree::stop();
        let _ = std::fs::remove_dir_all(&folder);
        eprintln!("ended by signal {signal}; what has been run so far is on record: --resume");
        std::process::exit(128 + signal);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let found = first_difference("a\nb\n", "a\nc\n");
        assert_eq!(found.as_deref(), Some("'c' instead of 'b'"));
        assert_eq!(
            first_difference("a\n", "").as_deref(),
            Some("nothing instead of 'a'")
        );
    }
}
