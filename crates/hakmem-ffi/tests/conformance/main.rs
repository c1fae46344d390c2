//! What a drop-in allocator must get right: each behaviour is a small program in C, C++ or Rust,
//! run through every front end of hakmem that it applies to, and on the C library alone, to prove
//! the program itself right.
//!
//! `cargo test -p hakmem-ffi --test conformance` runs all; a part of a name, or of `name/front
//! end`, after it runs those. `ci/conformance` writes the outcomes into docs/conformance.md.

#[path = "../common/mod.rs"]
mod common;

mod behaviours;
mod front_ends;
mod page;
mod programs;

use behaviours::{Behaviour, SECTIONS};
use common::filter;
use front_ends::{FRONT_ENDS, FrontEnd, Outcome};
use libtest_mimic::{Arguments, Failed, Trial};
use programs::Workshop;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The outcome of each behaviour by each front end that was run.
type Outcomes = HashMap<(&'static str, FrontEnd), Outcome>;

fn main() {
    let arguments = Arguments::from_args();
    let blessed = std::env::var_os("BLESS").is_some();
    let workshop = Arc::new(Workshop::new());
    let outcomes = Arc::new(Mutex::new(Outcomes::new()));
    let mut trials = vec![
        Trial::test("every_behaviour_is_listed", {
            let workshop = Arc::clone(&workshop);
            move || every_behaviour_is_listed(&workshop)
        }),
        Trial::test("page_has_every_behaviour", move || Ok(page::is_current()?))
            // It is only now being made, or it is of the other build.
            .with_ignored_flag(blessed || cfg!(feature = "hardened")),
    ];
    for behaviour in behaviours::all() {
        for front_end in FRONT_ENDS {
            if front_end.excluded(behaviour).is_none() {
                trials.push(trial(behaviour, front_end, &workshop, &outcomes));
            }
        }
    }
    let applies = |b: &&Behaviour| front_ends::hardened_lacks(b.name).is_none();
    trials.extend(
        behaviours::all()
            .filter(applies)
            .map(|b| under_filter(b, &workshop)),
    );
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list && blessed {
        page::write(&outcomes.lock().expect("no trial panicked"));
    }
    drop(workshop);
    conclusion.exit()
}

fn trial(
    behaviour: &'static Behaviour,
    front_end: FrontEnd,
    workshop: &Arc<Workshop>,
    outcomes: &Arc<Mutex<Outcomes>>,
) -> Trial {
    let (workshop, outcomes) = (Arc::clone(workshop), Arc::clone(outcomes));
    Trial::test(
        format!("{}/{}", behaviour.name, front_end.name()),
        move || {
            let outcome = front_end.run(behaviour, &workshop);
            let failure = match &outcome {
                Outcome::Failed(why) => Some(Failed::from(why)),
                Outcome::Held | Outcome::Lacking(_) => None,
            };
            let key = (behaviour.name, front_end);
            outcomes
                .lock()
                .expect("no trial panicked")
                .insert(key, outcome);
            failure.map_or(Ok(()), Err)
        },
    )
}

/// The behaviour under a filter that ends a process for any call but those that services commonly
/// make. A program that makes another one itself, as it then does on the C library too, says
/// nothing.
fn under_filter(behaviour: &'static Behaviour, workshop: &Arc<Workshop>) -> Trial {
    let workshop = Arc::clone(workshop);
    Trial::test(format!("{}/filtered", behaviour.name), move || {
        let failed =
            |front_end: FrontEnd| match front_end.run_by(filter::under, behaviour, &workshop) {
                Outcome::Failed(why) => Some(why),
                Outcome::Held | Outcome::Lacking(_) => None,
            };
        match failed(FrontEnd::Preload) {
            Some(why) if failed(FrontEnd::Glibc).is_none() => Err(why.into()),
            _ => Ok(()),
        }
    })
}

/// The programs and the list name the same behaviours: none is forgotten.
fn every_behaviour_is_listed(workshop: &Workshop) -> Result<(), Failed> {
    let mut listed: Vec<(String, &str)> = SECTIONS
        .iter()
        .flat_map(|section| section.behaviours)
        .flat_map(|b| {
            let rust = b.rust.is_none().then_some(programs::RUST);
            [Some(b.program), rust]
                .into_iter()
                .flatten()
                .map(|program| (b.name.to_owned(), program))
        })
        .collect();
    let mut have = Vec::new();
    for program in programs::ALL {
        let names = workshop.behaviours_of(program);
        have.extend(names.into_iter().map(|name| (name, *program)));
    }
    listed.sort();
    have.sort();
    if listed == have {
        return Ok(());
    }
    let missing: Vec<_> = listed.iter().filter(|b| !have.contains(b)).collect();
    let unlisted: Vec<_> = have.iter().filter(|b| !listed.contains(b)).collect();
    Err(format!("listed, but in no program: {missing:?}; not listed: {unlisted:?}").into())
}
