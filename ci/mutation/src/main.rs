//! Mutation testing of the core: `ci/mutants` is how it is run, and says more.
//!
//! cargo-mutants says what the mutants are. It would build the crate for each of them; here all are woven into one build
//! (`weave`, `build`), and each is switched on for a run of the tests that reach it, most promising first, until one
//! fails (`trial`, `run`). Those in code that the compiler evaluates are built one by one. `page` says how it went.

mod args;
mod build;
mod explained;
mod gated;
mod list;
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
use std::{env, fs, io};
use trial::Trials;

fn main() -> io::Result<()> {
    let args = Args::from(env::args().skip(1)).map_err(io::Error::other)?;
    let mutants = list::read(&args.work.join("list.json"))?;
    let mut results = Results::open(args.work.join("results.tsv"))?;
    if !args.page_only {
        try_all(&args, &mutants, &mut results)?;
    }
    page::write(&mutants, &results)
}

fn try_all(args: &Args, mutants: &BTreeMap<usize, Mutant>, results: &mut Results) -> io::Result<()> {
    let text = fs::read_to_string(EXPLAINED)?;
    let explained = Explained::parse(&text).map_err(io::Error::other)?;
    let mut wanted: Vec<_> = mutants
        .iter()
        .filter(|(number, _)| number.is_multiple_of(args.every))
        .filter_map(|(&number, m)| Some((args.place_of(m.module())?, number, m)))
        .filter(|(.., m)| !args.missed || results.of(m).is_none_or(|o| o.is_missed() && !explained.has(&m.id)))
        .collect();
    let copy = Copy::new(args.work.join("copy"), mutants, args.tests.clone())?;
    let woven = if args.go_on { build::of_before(&copy, mutants) } else { build::all(&copy, mutants) }?;
    eprintln!("{} mutants, {} woven, {} do not compile", mutants.len(), woven.numbers.len(), woven.refused.len());
    // Those that were missed before, first: there are new tests, maybe.
    wanted.sort_by_key(|(place, number, m)| (results.of(m).is_none(), *place, *number));
    for (.., mutant) in wanted.extract_if(.., |(_, number, _)| woven.refused.contains(number)) {
        results.note(mutant, Outcome::Refused)?;
    }
    let mut trials = Trials::measure(woven.programs)?;
    let mut constant = Vec::new();
    let mut note = |left: usize, mutant: &Mutant, outcome| {
        eprintln!("{left:4} left: {outcome}: {}", mutant.name);
        results.note(mutant, outcome)
    };
    for (i, &(_, number, mutant)) in wanted.iter().enumerate() {
        if woven.numbers.contains(&number) {
            note(wanted.len() - i, mutant, trials.of_woven(number)?)?;
        } else {
            constant.push(mutant);
        }
    }
    for (i, mutant) in constant.iter().enumerate() {
        note(constant.len() - i, mutant, of_one_alone(&copy, mutant, &mut trials)?)?;
    }
    Ok(())
}

/// Tries a mutant in a build of its own. The unit tests are enough for most.
fn of_one_alone(copy: &Copy, mutant: &Mutant, trials: &mut Trials) -> io::Result<Outcome> {
    for all_tests in [false, true] {
        let Some(programs) = build::alone(copy, mutant, all_tests)? else { return Ok(Outcome::Refused) };
        let outcome = trials.of_built(&programs)?;
        if !outcome.is_missed() {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Missed)
}
