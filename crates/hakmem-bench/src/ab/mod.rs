//! `hakmem-bench ab`: hakmem against itself, with two settings of its options or in two builds, by
//! pairs of runs that are neighbours in time. What slows the machine for seconds meets both runs of
//! a pair, so that far smaller differences show than in medians of each side.

pub mod side;

use crate::executables;
use crate::machine::Build;
use crate::pairs::interval::FEWEST;
use crate::pairs::{self, Ab, Pair};
use crate::progress::Progress;
use crate::record::{Record, Start};
use crate::report::Summary;
use crate::sample::Failure;
use crate::workloads;
use side::{Setting, Side};
use std::io;
use std::path::PathBuf;

/// All workloads.
const WORKLOADS: &str = "workloads";

/// What to compare: side A with side B.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Options of hakmem on side A, separated by commas: DECAY_MS=0 stands for HAKMEM_DECAY_MS=0
    #[arg(long, value_delimiter = ',', value_name = "NAME=VALUE", value_parser = side::setting)]
    pub set: Vec<Setting>,
    /// Those on side B [default: none]
    #[arg(long, value_delimiter = ',', value_name = "NAME=VALUE", value_parser = side::setting)]
    pub vs: Vec<Setting>,
    /// The program of side A: hakmem-run-hakmem, or an older hakmem-bench, of another build
    #[arg(long, value_name = "PATH")]
    pub bin: Option<PathBuf>,
    /// That of side B
    #[arg(long, value_name = "PATH")]
    pub vs_bin: Option<PathBuf>,
    /// Pairs of runs of each workload
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(i64::from(FEWEST)..=1000))]
    pub rounds: u32,
    /// Short runs, for a look
    #[arg(long)]
    pub quick: bool,
    /// Write the record with every sample to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The workloads (`hakmem-bench list` shows all), or `workloads` for all of them
    #[arg(required = true, value_name = "WORKLOAD", value_parser = names())]
    pub workloads: Vec<String>,
}

fn names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(workloads::names().chain([WORKLOADS]))
}

/// Runs the comparison, prints its table, writes its record. `Ok(false)` if a run failed.
pub fn run(options: &Options) -> io::Result<bool> {
    let start = Start::now();
    if options.set.is_empty()
        && options.vs.is_empty()
        && options.bin.is_none()
        && options.vs_bin.is_none()
    {
        return Err(io::Error::other(
            "nothing to compare: --set, --vs, --bin and --vs-bin say what differs",
        ));
    }
    let sides = sides(options)?;
    let workloads = chosen(&options.workloads);
    let (pairs, failures) = take(options, &sides, &workloads);
    let comparisons = pairs::compare(&workloads, &pairs);
    let [a, b] = &sides;
    println!("A: {}\nB: {}\n", a.name, b.name);
    print!("{}", pairs::table(&comparisons));
    for failure in &failures {
        eprintln!("FAILED: {failure}");
    }
    let good = failures.is_empty();
    if let Some(path) = &options.json {
        let samples: Vec<_> = pairs.into_iter().flat_map(|(a, b)| [a, b]).collect();
        let names = [a.name.clone(), b.name.clone()];
        let summary = Summary::new(&workloads, &names, &b.name, &samples, &[]);
        let record = Record {
            quick: options.quick,
            samples,
            ab: Some(Ab {
                a: a.record(),
                b: b.record(),
                comparisons,
            }),
            failures,
            ..start.record("ab", options.rounds, summary)
        };
        record.write(path)?;
    }
    Ok(good)
}

/// Takes all pairs, round by round.
fn take(options: &Options, sides: &[Side; 2], workloads: &[String]) -> (Vec<Pair>, Vec<Failure>) {
    let progress = Progress::new(2 * u64::from(options.rounds) * workloads.len() as u64);
    if !Build::is_optimised() {
        progress.say("built without optimisation: the figures mean nothing");
    }
    let (mut pairs, mut failures) = (Vec::new(), Vec::new());
    let scale = if options.quick { "quick" } else { "full" };
    for round in 0..options.rounds {
        progress.stage(&format!("round {} of {}", round + 1, options.rounds));
        for workload in workloads {
            match pair(sides, workload, scale, round, &progress) {
                Ok(pair) => pairs.push(pair),
                Err(failure) => failures.push(failure),
            }
        }
    }
    (pairs, failures)
}

/// Both sides, able to run.
fn sides(options: &Options) -> io::Result<[Side; 2]> {
    if options.bin.is_none() || options.vs_bin.is_none() {
        executables::bring_up_to_date()?;
    }
    let mut a = Side::new(options.bin.as_deref(), &options.set)?;
    let mut b = Side::new(options.vs_bin.as_deref(), &options.vs)?;
    if a.name == b.name {
        // The same on both sides shows how far noise alone goes.
        a.name.push_str(" (A)");
        b.name.push_str(" (B)");
    }
    a.check()?;
    b.check()?;
    Ok([a, b])
}

fn chosen(asked: &[String]) -> Vec<String> {
    let mut chosen: Vec<String> = Vec::new();
    for name in asked {
        let group = (name == WORKLOADS).then(|| workloads::names().map(str::to_owned));
        let named = group.is_none().then(|| name.clone());
        for name in group.into_iter().flatten().chain(named) {
            if !chosen.contains(&name) {
                chosen.push(name);
            }
        }
    }
    chosen
}

/// Runs a workload on both sides: A first in even rounds, B first in odd ones, so that neither
/// always follows the other.
fn pair(
    sides: &[Side; 2],
    workload: &str,
    scale: &str,
    round: u32,
    progress: &Progress,
) -> Result<Pair, Failure> {
    let one = |side: &Side| {
        progress.step(format!("{workload}, {}", side.name));
        let sample = side.sample(workload, scale, round);
        progress.done();
        sample.map_err(|what| Failure {
            workload: workload.to_owned(),
            allocator: side.name.clone(),
            what,
        })
    };
    let [a, b] = sides;
    if round.is_multiple_of(2) {
        let first = one(a)?;
        return Ok((first, one(b)?));
    }
    let first = one(b)?;
    Ok((one(a)?, first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workload_is_compared_once() {
        let asked = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            chosen(&names)
        };
        assert_eq!(asked(&["mir", "json", "mir"]), ["mir", "json"]);
        let all = asked(&["json", WORKLOADS]);
        assert_eq!(all.len(), workloads::names().count());
        assert_eq!(all[0], "json");
    }
}
