//! Chooses the tests that a mutant is tried by, and their order.

use crate::build::Programs;
use crate::results::Outcome;
use crate::run::{self, Seconds, run};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{env, fs, io};

/// A test, and the facts that decide when it runs.
struct Test {
    program: String,
    name: String,
    /// How long the test takes without a mutant.
    seconds: Seconds,
    /// By the number of a mutant: true if the test reaches it.
    reached: Vec<bool>,
    /// How many mutants the test was tried on, and how many of them it caught.
    tried: AtomicU32,
    caught: AtomicU32,
}

/// Which tests a mutant is tried by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Those that take next to no time. They catch most.
    Quick,
    /// The others.
    Slow,
}

/// What a quick test takes at most.
const QUICK: f64 = 0.15;

impl Test {
    /// What it catches in a second, as far as is known.
    fn worth(&self) -> f64 {
        let share =
            f64::from(self.caught.load(Relaxed) + 1) / f64::from(self.tried.load(Relaxed) + 1);
        share / (self.seconds.busy + self.seconds.asleep + 0.05)
    }
    /// What it may take with one.
    fn most(&self, times: f64) -> Seconds {
        let Seconds { busy, asleep } = self.seconds;
        Seconds { busy: times * (10.0 * busy + 1.0), asleep: times * (3.0 * asleep + 3.0) }
    }
    fn reaches(&self, number: usize) -> bool {
        self.reached.get(number).is_some_and(|&r| r)
    }
    fn pace(&self) -> Pace {
        if self.seconds.busy + self.seconds.asleep <= QUICK { Pace::Quick } else { Pace::Slow }
    }
    fn full_name(&self) -> String {
        format!("{}::{}", self.program, self.name)
    }
}

const ANY: Seconds = Seconds { busy: f64::INFINITY, asleep: f64::INFINITY };

pub struct Trials {
    tests: Vec<Test>,
    woven: Programs,
}

impl Trials {
    /// Runs every test once without a mutant: it must pass, and shows what it reaches.
    pub fn measure(woven: Programs) -> io::Result<Self> {
        let mut tests = Vec::new();
        let file = env::temp_dir().join(format!("reached-{}", std::process::id()));
        for (program, path) in &woven {
            // These are about the source, which has one module more here.
            for name in run::names(path)?.into_iter().filter(|n| !n.starts_with("layers::")) {
                let _ = fs::remove_file(&file);
                let (outcome, seconds) = run(path, &name, 0, ANY, Some(&file))?;
                if outcome != run::Outcome::Passed {
                    return Err(io::Error::other(format!(
                        "{program}: {name} fails without a mutant: {outcome:?}"
                    )));
                }
                let reached: Vec<bool> = fs::read(&file)?.iter().map(|&b| b != 0).collect();
                let count = reached.iter().filter(|&&r| r).count();
                eprintln!(
                    "{:6.2} s, {:6.2} s asleep, {count:4} reached: {program}: {name}",
                    seconds.busy, seconds.asleep
                );
                let (tried, caught) = (AtomicU32::new(0), AtomicU32::new(0));
                tests.push(Test {
                    program: program.clone(),
                    name,
                    seconds,
                    reached,
                    tried,
                    caught,
                });
            }
        }
        let _ = fs::remove_file(&file);
        Ok(Self { tests, woven })
    }

    /// Tries a woven mutant by the tests of a pace that reach it.
    pub fn of_woven(&self, number: usize, pace: Pace) -> io::Result<Outcome> {
        let reaching: Vec<_> =
            (0..self.tests.len()).filter(|&i| self.tests[i].reaches(number)).collect();
        if reaching.is_empty() {
            return Ok(Outcome::Unreached);
        }
        let reaching = reaching.into_iter().filter(|&i| self.tests[i].pace() == pace).collect();
        self.first_that_fails(reaching, &self.woven, number)
    }

    /// Tries the mutant that `programs` were built with.
    pub fn of_built(&self, programs: &Programs) -> io::Result<Outcome> {
        let built = (0..self.tests.len())
            .filter(|&i| programs.contains_key(&self.tests[i].program))
            .collect();
        self.first_that_fails(built, programs, 0)
    }

    fn first_that_fails(
        &self,
        mut which: Vec<usize>,
        programs: &Programs,
        number: usize,
    ) -> io::Result<Outcome> {
        which.sort_by(|&a, &b| self.tests[b].worth().total_cmp(&self.tests[a].worth()));
        for i in which {
            let test = &self.tests[i];
            let program = &programs[&test.program];
            let (mut outcome, _) = run(program, &test.name, number, test.most(1.0), None)?;
            if outcome == run::Outcome::Hung {
                // Once more with more time, as it is not for certain that the mutant is why.
                outcome = run(program, &test.name, number, test.most(3.0), None)?.0;
            }
            test.tried.fetch_add(1, Relaxed);
            test.caught.fetch_add(u32::from(outcome != run::Outcome::Passed), Relaxed);
            match outcome {
                run::Outcome::Passed => (),
                run::Outcome::Failed => return Ok(Outcome::Caught(test.full_name())),
                run::Outcome::Hung => return Ok(Outcome::TimedOut(test.full_name())),
            }
        }
        Ok(Outcome::Missed)
    }
}
