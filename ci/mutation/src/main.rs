//! Mutation testing of the core. `ci/mutants` runs this program, and says more.
//!
//! ```text
//! list ──→ weave, build ──→ trial, run ──→ results ──→ page
//! ```
//!
//! 1. cargo-mutants makes the list of mutants. It would build the crate once for each of them.
//! 2. `weave` puts all mutants into one copy of the sources, and `build` builds it once. Mutants in
//!    code that the compiler evaluates cannot share a build: each has its own.
//! 3. `trial` switches one mutant on, and runs the tests that reach it (`run`), the most promising
//!    ones first, until one fails.
//! 4. `page` writes the outcomes into a document.
//!
//! `ci/loom` and `ci/shuttle` use the same weaver. `mutation mistakes SUITE FOLDER` makes a copy of
//! the sources with the deliberate mistakes that the models of a suite must find (`mistakes`,
//! `models`).

mod args;
mod build;
mod explained;
mod gated;
mod list;
mod mistakes;
mod models;
mod page;
mod results;
mod run;
mod trial;
mod weave;

use args::Args;
use build::Copy;
use explained::{EXPLAINED, Explained};
use list::Mutant;
use results::{Outcome, Results};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{env, fs, io, thread};
use trial::{Pace, Trials};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["mistakes", suite, folder] => models::copy(suite, Path::new(folder)),
        _ => mutants(words),
    };
    done.map_or_else(
        |error| {
            eprintln!("mutation: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn mutants(words: Vec<String>) -> io::Result<()> {
    let args = Args::from(words.into_iter()).map_err(io::Error::other)?;
    let mutants = list::read(&args.work.join("list.json"))?;
    let mut results = Results::open(args.work.join("results.tsv"))?;
    if !args.page_only {
        try_all(&args, &mutants, &mut results)?;
    }
    page::write(&mutants, &results)
}

fn try_all(
    args: &Args,
    mutants: &BTreeMap<usize, Mutant>,
    results: &mut Results,
) -> io::Result<()> {
    let text = fs::read_to_string(EXPLAINED)?;
    let explained = Explained::parse(&text).map_err(io::Error::other)?;
    let mut wanted: Vec<_> = mutants
        .iter()
        .filter(|(number, _)| number.is_multiple_of(args.every))
        .filter_map(|(&number, m)| Some((args.place_of(m.module())?, number, m)))
        .filter(|(.., m)| {
            !args.missed || results.of(m).is_none_or(|o| o.is_missed() && !explained.has(&m.id))
        })
        .collect();
    let copy = Copy::new(args.work.join("copy"), mutants, args.tests.clone())?;
    let woven =
        if args.go_on { build::of_before(&copy, mutants) } else { build::all(&copy, mutants) }?;
    eprintln!(
        "{} mutants, {} woven, {} do not compile",
        mutants.len(),
        woven.numbers.len(),
        woven.refused.len()
    );
    // Those that were missed before, first: there are new tests, maybe.
    wanted.sort_by_key(|(place, number, m)| (results.of(m).is_none(), *place, *number));
    for (.., mutant) in wanted.extract_if(.., |(_, number, _)| woven.refused.contains(number)) {
        results.note(mutant, Outcome::Refused)?;
    }
    let trials = Trials::measure(woven.programs)?;
    let (wanted, constant): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|(_, n, _)| woven.numbers.contains(n));
    let wanted: Vec<_> = wanted.into_iter().map(|(_, number, mutant)| (number, mutant)).collect();
    // All by the quick tests first: a run that is cut short knows the most then.
    let rest = try_woven(&wanted, Pace::Quick, &trials, results)?;
    try_woven(&rest, Pace::Slow, &trials, results)?;
    for (i, (.., mutant)) in constant.iter().enumerate() {
        let outcome = of_one_alone(&copy, mutant, &trials)?;
        note(constant.len() - i, mutant, outcome, results)?;
    }
    Ok(())
}

fn note(left: usize, mutant: &Mutant, outcome: Outcome, results: &mut Results) -> io::Result<()> {
    eprintln!("{left:4} left: {outcome}: {}", mutant.name);
    results.note(mutant, outcome)
}

/// Tries these at one pace, as many at once as there are processors. Returns those that the quick
/// tests have missed.
fn try_woven<'a>(
    wanted: &[(usize, &'a Mutant)],
    pace: Pace,
    trials: &Trials,
    results: &mut Results,
) -> io::Result<Vec<(usize, &'a Mutant)>> {
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((results, Vec::new()));
    let work = || {
        while let Some(&(number, mutant)) = wanted.get(next.fetch_add(1, Relaxed)) {
            let outcome = trials.of_woven(number, pace)?;
            let mut shared = shared.lock().expect("nobody panics here");
            let (results, missed) = &mut *shared;
            if pace == Pace::Quick && outcome == Outcome::Missed {
                missed.push((number, mutant));
            } else {
                note(wanted.len().saturating_sub(next.load(Relaxed)), mutant, outcome, results)?;
            }
        }
        io::Result::Ok(())
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, |n| n.get());
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("nobody panics here"))
    })?;
    let mut missed = shared.into_inner().expect("nobody panics here").1;
    missed.sort_by_key(|&(number, _)| wanted.iter().position(|&(n, _)| n == number));
    Ok(missed)
}

/// Tries a mutant in a build of its own. The unit tests are enough for most.
fn of_one_alone(copy: &Copy, mutant: &Mutant, trials: &Trials) -> io::Result<Outcome> {
    for all_tests in [false, true] {
        let Some(programs) = build::alone(copy, mutant, all_tests)? else {
            return Ok(Outcome::Refused);
        };
        let outcome = trials.of_built(&programs)?;
        if !outcome.is_missed() {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Missed)
}
