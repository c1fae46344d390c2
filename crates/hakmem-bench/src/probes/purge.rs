//! What it costs hakmem to hand memory back: the same loops with purging and without it, in pairs.

use super::library::{HAKMEM, Library};
use super::under::timed;
use crate::sample::{Failure, ProbeSample};
use crate::workloads::timed::LOOPS;

/// The probe.
pub const NAME: &str = "purge_cost";

/// With these, free memory stays: it decays after a day, and no thread looks for it.
const OFF: [(&str, &str); 2] = [("HAKMEM_DECAY_MS", "86400000"), ("HAKMEM_SCAVENGER", "0")];

/// The samples of `loop_name` are called so.
pub fn sample_name(loop_name: &str) -> String {
    format!("{NAME}:{loop_name}")
}

/// Takes two pairs of each loop: with purging first, then last. A ratio of neighbours in time is
/// not moved by what slows the machine for longer.
pub fn pairs(
    library: &Library,
    scale: &str,
    round: u32,
    samples: &mut Vec<ProbeSample>,
    failures: &mut Vec<Failure>,
) {
    for name in LOOPS {
        for off_first in [false, true] {
            match pair(library, name, scale, off_first) {
                Ok(value) => samples.push(ProbeSample {
                    probe: sample_name(name),
                    allocator: HAKMEM.to_owned(),
                    round,
                    value,
                    unit: String::new(),
                }),
                Err(what) => failures.push(Failure {
                    workload: sample_name(name),
                    allocator: HAKMEM.to_owned(),
                    what,
                }),
            }
        }
    }
}

/// The time with purging relative to that without.
fn pair(library: &Library, name: &str, scale: &str, off_first: bool) -> Result<f64, String> {
    let nanos = |off: bool| -> Result<f64, String> {
        let line = timed(library, name, scale, |command| {
            for (variable, value) in OFF {
                if off {
                    command.env(variable, value);
                } else {
                    command.env_remove(variable);
                }
            }
        })?;
        Ok(line.nanos as f64)
    };
    let first = nanos(off_first)?;
    let second = nanos(!off_first)?;
    Ok(if off_first {
        second / first
    } else {
        first / second
    })
}
