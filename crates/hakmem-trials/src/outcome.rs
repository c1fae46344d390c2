//! What a program produced, and whether it is the same on all libraries.

use crate::libraries::Side;
use hakmem_bench::child::{Capture, Finished, ending};
use hakmem_bench::sample::{Outcome, Sample};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::process::ExitStatus;

/// What a run that ended so produced.
pub fn outcome(status: ExitStatus, stdout: Capture, stderr: Capture) -> io::Result<Outcome> {
    Ok(Outcome {
        ending: ending(status),
        stdout_sha256: sha256(stdout)?,
        stderr_sha256: sha256(stderr)?,
    })
}

fn sha256(output: Capture) -> io::Result<String> {
    let mut hash = Sha256::new();
    sha256_into(&mut hash, output.reader()?)?;
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Adds everything that `reader` gives.
pub fn sha256_into(hash: &mut Sha256, mut reader: impl Read) -> io::Result<()> {
    let mut buffer = [0; 1 << 16];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(()),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// The sample of one run of a whole program, which took `nanos` by the clock that it is measured
/// by.
pub fn sample(
    program: &str,
    side: &Side,
    round: u32,
    nanos: u64,
    run: &Finished,
    outcome: Outcome,
) -> Sample {
    let usage = run.usage;
    Sample {
        workload: program.to_owned(),
        allocator: side.name.clone(),
        round,
        ops: 1,
        nanos,
        wall_nanos: run.wall.as_nanos() as u64,
        user_micros: usage.user_us,
        system_micros: usage.system_us,
        max_rss_kib: usage.max_rss_kib,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        inside: None,
        outcome: Some(outcome),
    }
}

/// How the program behaved on each library, compared with how it behaves without one.
pub struct Verdict {
    /// Name and difference.
    pub differences: Vec<(String, String)>,
    /// Aspects that vary even without a library, and so prove nothing.
    pub unsteady: Vec<&'static str>,
}

/// One aspect of an outcome.
type Aspect = (&'static str, fn(&Outcome) -> &str);

impl Verdict {
    /// Compares outcomes, each with the name of its side, with those of the side called `base`.
    pub fn new(base: &str, names: &[String], outcomes: &[(&str, &Outcome)]) -> Self {
        let aspects: [Aspect; 3] = [
            ("exit status", |o| &o.ending),
            ("standard output", |o| &o.stdout_sha256),
            ("standard error", |o| &o.stderr_sha256),
        ];
        let mut verdict = Self {
            differences: Vec::new(),
            unsteady: Vec::new(),
        };
        for (what, of) in aspects {
            let seen = |name: &str| -> BTreeSet<&str> {
                let mine = outcomes.iter().filter(|(n, _)| *n == name);
                mine.map(|(_, outcome)| of(outcome)).collect()
            };
            let expected = seen(base);
            if expected.len() > 1 {
                verdict.unsteady.push(what);
                continue;
            }
            for name in names {
                let unexpected: Vec<&str> = seen(name).difference(&expected).copied().collect();
                if !unexpected.is_empty() {
                    let expected: Vec<&str> = expected.iter().copied().collect();
                    let text = format!(
                        "{what}: {} instead of {}",
                        unexpected.join(", "),
                        expected.join(", ")
                    );
                    verdict.differences.push((name.clone(), text));
                }
            }
        }
        verdict
    }

    /// Says what differs.
    pub fn print(&self) {
        for what in &self.unsteady {
            println!("\nThe {what} differs between runs without a library, so it is not compared.");
        }
        for (name, what) in &self.differences {
            println!("\nDIFFERENT on {name}: {what}");
        }
        if self.differences.is_empty() && self.unsteady.is_empty() {
            println!("\nExit status and output are the same on all.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakmem_bench::probes::library::NONE;

    fn outcome(ending: &str, stdout: &str) -> Outcome {
        Outcome {
            ending: ending.into(),
            stdout_sha256: stdout.into(),
            stderr_sha256: String::new(),
        }
    }

    fn verdict(runs: &[(&str, &str, &str)]) -> Verdict {
        let outcomes: Vec<_> = runs
            .iter()
            .map(|(name, end, out)| (*name, outcome(end, out)))
            .collect();
        let outcomes: Vec<_> = outcomes
            .iter()
            .map(|(name, outcome)| (*name, outcome))
            .collect();
        Verdict::new(NONE, &["none".into(), "a".into()], &outcomes)
    }

    #[test]
    fn one_bad_run_in_many_is_a_difference() {
        let v = verdict(&[
            ("none", "exit 0", "x"),
            ("a", "exit 0", "x"),
            ("a", "signal 11", "x"),
        ]);
        assert_eq!(
            v.differences,
            [(
                "a".to_owned(),
                "exit status: signal 11 instead of exit 0".to_owned()
            )]
        );
    }

    #[test]
    fn output_that_varies_by_itself_is_not_held_against_a_library() {
        let v = verdict(&[
            ("none", "exit 0", "x"),
            ("none", "exit 0", "y"),
            ("a", "exit 0", "z"),
        ]);
        assert!(v.differences.is_empty());
        assert_eq!(v.unsteady, ["standard output"]);
    }
}
