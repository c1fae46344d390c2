//! What the runs of a program on a side are worth, against those on the system's allocator.

use super::results::{DEADLINE, Results, Run};
use hakmem_bench::probes::library::{HAKMEM, SYSTEM};
use std::collections::BTreeSet;

/// What can go wrong with a run, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It did not end in time.
    Hang,
    /// A signal ended a program that ends by itself on the system's allocator.
    Crash,
    /// Another exit status.
    ExitStatus,
    /// Other output.
    WrongOutput,
    /// The library was not there.
    NotServed,
}

impl Fault {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hang => "hang",
            Self::Crash => "crash",
            Self::ExitStatus => "exit status",
            Self::WrongOutput => "wrong output",
            Self::NotServed => "not served",
        }
    }
}

/// All runs of one program on one side.
#[derive(Debug, Default)]
pub struct Verdict {
    /// How many there were.
    pub runs: usize,
    /// What was wrong with how many, the worst fault of each counted; and an account of the first.
    pub faults: Vec<(Fault, usize, String)>,
}

impl Verdict {
    /// Whether there were runs, all good.
    pub fn is_good(&self) -> bool {
        self.runs > 0 && self.faults.is_empty()
    }
}

/// What the system's runs agree on; `Err` if they do not agree, or do not end well: then nothing
/// can be compared.
pub fn expected<'a>(results: &'a Results, program: &str) -> Result<&'a Run, String> {
    let runs: Vec<&Run> = results
        .runs
        .iter()
        .filter(|r| r.program == program && r.side == SYSTEM)
        .collect();
    let first = runs.first().ok_or("no run on the system's allocator")?;
    let outcomes: BTreeSet<_> = runs
        .iter()
        .map(|r| (&r.ending, &r.endings, &r.output))
        .collect();
    if outcomes.len() > 1 {
        return Err("runs on the system's allocator differ".to_owned());
    }
    if first.ending != "exit 0" {
        return Err(format!(
            "on the system's allocator: {}: {}",
            first.ending, first.note
        ));
    }
    Ok(first)
}

/// Judges the runs of a side.
pub fn judge<'a>(expected: &Run, runs: impl Iterator<Item = &'a Run>) -> Verdict {
    let mut verdict = Verdict::default();
    for run in runs {
        verdict.runs += 1;
        let Some((fault, account)) = fault(expected, run) else {
            continue;
        };
        match verdict.faults.iter_mut().find(|(f, ..)| *f == fault) {
            Some((_, count, _)) => *count += 1,
            None => verdict.faults.push((fault, 1, account)),
        }
    }
    verdict.faults.sort();
    verdict
}

fn fault(expected: &Run, run: &Run) -> Option<(Fault, String)> {
    let account = |what: String| {
        if run.note.is_empty() {
            what
        } else {
            format!("{what}; {}", run.note)
        }
    };
    if run.ending == DEADLINE {
        return Some((Fault::Hang, account("no end".to_owned())));
    }
    let new: Vec<&String> = run
        .endings
        .iter()
        .filter(|e| !expected.endings.contains(e))
        .collect();
    if let Some(crash) = new.iter().find(|e| e.contains(": signal ")) {
        return Some((Fault::Crash, account((*crash).clone())));
    }
    if run.ending != expected.ending || run.endings != expected.endings {
        let what = new.first().map_or(run.ending.clone(), |e| (*e).clone());
        return Some((Fault::ExitStatus, account(what)));
    }
    if run.output != expected.output {
        return Some((Fault::WrongOutput, account("another output".to_owned())));
    }
    if !run.unserved.is_empty() {
        return Some((
            Fault::NotServed,
            format!("{} without the library", run.unserved.join(", ")),
        ));
    }
    let nothing = run.side == HAKMEM && run.served.as_ref().is_none_or(|s| s.allocations == 0);
    if nothing || run.mapped == Some(false) {
        return Some((
            Fault::NotServed,
            "nothing shows that the library was used".to_owned(),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::proof::Served;
    use super::*;

    fn run(side: &str, endings: &[&str], output: &str) -> Run {
        let served = Served {
            loaded: 1,
            reported: 1,
            allocations: 9,
            foreign_frees: 0,
        };
        Run {
            program: "p".to_owned(),
            side: side.to_owned(),
            round: 0,
            script: String::new(),
            library: String::new(),
            ending: "exit 0".to_owned(),
            endings: endings.iter().map(|e| (*e).to_owned()).collect(),
            output: output.to_owned(),
            seconds: 1.0,
            cpu_seconds: 1.0,
            peak_rss_kib: 1,
            maps: 1,
            mapped: None,
            served: (side == HAKMEM).then_some(served),
            unserved: Vec::new(),
            note: String::new(),
        }
    }

    fn faults(of: Run) -> Vec<Fault> {
        let system = run(SYSTEM, &["a: exit 0", "b: signal 15"], "x");
        let verdict = judge(&system, [&of].into_iter());
        verdict.faults.iter().map(|f| f.0).collect()
    }

    #[test]
    fn each_fault_is_told_apart() {
        let good = run(HAKMEM, &["a: exit 0", "b: signal 15"], "x");
        assert_eq!(faults(good.clone()), []);
        assert_eq!(
            faults(Run {
                ending: DEADLINE.to_owned(),
                ..good.clone()
            }),
            [Fault::Hang]
        );
        assert_eq!(
            faults(run(HAKMEM, &["a: signal 11", "b: signal 15"], "x")),
            [Fault::Crash]
        );
        assert_eq!(
            faults(run(HAKMEM, &["a: exit 1", "b: signal 15"], "x")),
            [Fault::ExitStatus]
        );
        assert_eq!(
            faults(run(HAKMEM, &["a: exit 0"], "x")),
            [Fault::ExitStatus]
        );
        assert_eq!(
            faults(run(HAKMEM, &["a: exit 0", "b: signal 15"], "y")),
            [Fault::WrongOutput]
        );
        assert_eq!(
            faults(Run {
                served: None,
                ..good.clone()
            }),
            [Fault::NotServed]
        );
        assert_eq!(
            faults(Run {
                unserved: vec!["a".to_owned()],
                ..good.clone()
            }),
            [Fault::NotServed]
        );
        let other = Run {
            mapped: Some(false),
            ..run("jemalloc", &["a: exit 0", "b: signal 15"], "x")
        };
        assert_eq!(faults(other), [Fault::NotServed]);
    }

    #[test]
    fn nothing_is_judged_by_a_system_that_disagrees_with_itself() {
        let mut results = Results::default();
        assert!(expected(&results, "p").is_err());
        results.runs.push(run(SYSTEM, &["a: exit 0"], "x"));
        assert!(expected(&results, "p").is_ok());
        results.runs.push(run(SYSTEM, &["a: exit 0"], "y"));
        assert!(expected(&results, "p").is_err_and(|e| e.contains("differ")));
    }
}
