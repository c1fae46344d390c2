//! What the runs of all programs gave, and what it is worth.

use super::once::Ready;
use super::table::Program;
use crate::libraries::Side;
use crate::outcome::Verdict;
use hakmem_bench::probes::library::SYSTEM;
use hakmem_bench::progress::Progress;
use hakmem_bench::sample::{Failure, Outcome, Sample, Trace};
use hakmem_bench::tracer;
use std::io;

/// All that a comparison gathers.
#[derive(Default)]
pub struct Gathered {
    /// Every timed run that ended well.
    pub samples: Vec<Sample>,
    /// Every traced run.
    pub traces: Vec<Trace>,
    /// What traced runs produced, by program and side.
    produced: Vec<(&'static str, String, Outcome)>,
    /// What went wrong.
    pub failures: Vec<Failure>,
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

    /// Runs everything once under the tracer.
    pub fn trace_all(
        &mut self,
        ready: &[Ready],
        sides: &[Side],
        progress: &Progress,
    ) -> io::Result<()> {
        if !tracer::works()? {
            progress.say(
                "this process may not trace others: system calls are not counted, and nothing \
                 shows that the libraries \
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
    pub fn round(&mut self, ready: &[Ready], sides: &[Side], round: u32, progress: &Progress) {
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

    /// Compares what a program produced with what it produces on the system's allocator, and takes
    /// out the samples of runs that did not end well: their time is that of something else.
    pub fn judge(&mut self, program: &'static Program, sides: &[Side]) {
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
                        "The {aspect} of {name} differs between runs on the system's allocator, \
                         and is not compared."
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
    use super::super::table;
    use super::*;

    fn sample(side: &str, ending: &str, stdout: &str) -> Sample {
        Sample {
            outcome: Some(Outcome {
                ending: ending.to_owned(),
                stdout_sha256: stdout.to_owned(),
                stderr_sha256: String::new(),
            }),
            ..Sample::of("sort", side, 1, 1)
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
}
