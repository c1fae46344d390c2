//! How the time of an operation grows with the blocks that are live, and with the threads that
//! work.
//!
//! The caches of the processor impose a growth on every allocator, so that curves say something
//! only side by side.

use crate::probes::contender::Contender;
use crate::progress::Progress;
use crate::sample::{Failure, Series};
use crate::stats::median;

/// The name of the curves over live blocks.
pub const BY_BLOCKS: &str = "time by live blocks";
/// The name of the curves over threads.
pub const BY_THREADS: &str = "time by threads";

/// One point of a curve.
#[derive(Debug, Clone, Copy)]
struct Step {
    curve: &'static str,
    x: u64,
    /// The entry in [`growing`](crate::workloads::growing) that measures it.
    workload: &'static str,
    /// Whether a quick comparison has it.
    quick: bool,
}

const fn step(curve: &'static str, x: u64, workload: &'static str, quick: bool) -> Step {
    Step {
        curve,
        x,
        workload,
        quick,
    }
}

const STEPS: [Step; 12] = [
    step(BY_BLOCKS, 1_000, "live_1k", true),
    step(BY_BLOCKS, 10_000, "live_10k", true),
    step(BY_BLOCKS, 100_000, "live_100k", true),
    step(BY_BLOCKS, 1_000_000, "live_1m", false),
    step(BY_BLOCKS, 10_000_000, "live_10m", false),
    step(BY_THREADS, 1, "threads_1", true),
    step(BY_THREADS, 2, "threads_2", true),
    step(BY_THREADS, 4, "threads_4", true),
    step(BY_THREADS, 8, "threads_8", false),
    step(BY_THREADS, 16, "threads_16", false),
    step(BY_THREADS, 32, "threads_32", false),
    step(BY_THREADS, 64, "threads_64", false),
];

/// Measures all curves: every allocator at a step before the next step, and everything `rounds`
/// times.
pub fn run(
    allocators: &[String],
    quick: bool,
    rounds: u32,
    failures: &mut Vec<Failure>,
) -> Vec<Series> {
    let steps: Vec<Step> = STEPS.into_iter().filter(|s| s.quick || !quick).collect();
    let scale = if quick { "quick" } else { "full" };
    let progress = Progress::new(u64::from(rounds) * (steps.len() * allocators.len()) as u64);
    let mut times = Vec::new();
    for round in 0..rounds {
        progress.stage(&format!("growth, round {} of {rounds}", round + 1));
        for step in &steps {
            for i in 0..allocators.len() {
                let allocator = &allocators[(round as usize + i) % allocators.len()];
                progress.step(format!("{} on {allocator}", step.workload));
                match Contender::BuiltIn(allocator).sample(step.workload, scale, round) {
                    Ok(sample) => times.push((
                        step.workload,
                        allocator.as_str(),
                        sample.nanos as f64 / sample.ops as f64,
                    )),
                    Err(what) => failures.push(Failure {
                        workload: step.workload.to_owned(),
                        allocator: allocator.clone(),
                        what,
                    }),
                }
                progress.done();
            }
        }
    }
    curves(&steps, allocators, &times)
}

/// The medians of `(step, allocator, nanoseconds)`, as curves.
fn curves(steps: &[Step], allocators: &[String], times: &[(&str, &str, f64)]) -> Vec<Series> {
    let mut all = Vec::new();
    for (curve, x) in [(BY_BLOCKS, "live blocks"), (BY_THREADS, "threads")] {
        for allocator in allocators {
            let point = |step: &Step| {
                let mine = times
                    .iter()
                    .filter(|(s, a, _)| *s == step.workload && a == allocator);
                let nanos: Vec<f64> = mine.map(|(_, _, nanos)| *nanos).collect();
                Some((step.x as f64, median(&nanos)?))
            };
            let points: Vec<_> = steps
                .iter()
                .filter(|s| s.curve == curve)
                .filter_map(point)
                .collect();
            if !points.is_empty() {
                all.push(Series {
                    name: curve.to_owned(),
                    allocator: allocator.clone(),
                    x: x.to_owned(),
                    y: "ns per operation".to_owned(),
                    points,
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Meter;
    use crate::workloads::{self, growing};
    use std::alloc::System;

    #[test]
    fn every_step_has_a_workload_that_runs() {
        let all = growing::table::<System>();
        assert_eq!(all.len(), STEPS.len());
        for step in STEPS {
            let workload = all.iter().find(|w| w.name == step.workload);
            let workload = workload.expect("a step names its workload");
            assert!(workloads::names().all(|n| n != step.workload));
            if step.x <= 1000 {
                let mut meter = Meter::default();
                (workload.run)(100, &mut meter);
                assert!(meter.time.as_nanos() > 0);
            }
        }
    }

    #[test]
    fn curves_are_medians_by_x_and_leave_out_what_did_not_run() {
        let names = ["a".to_owned(), "b".to_owned()];
        let times = [
            ("live_1k", "a", 10.0),
            ("live_1k", "a", 30.0),
            ("live_1k", "a", 11.0),
            ("live_10k", "a", 12.0),
            ("threads_1", "b", 5.0),
        ];
        let curves = curves(&STEPS, &names, &times);
        assert_eq!(curves.len(), 2);
        assert_eq!(curves[0].points, [(1e3, 11.0), (1e4, 12.0)]);
        assert_eq!(
            (curves[1].name.as_str(), curves[1].allocator.as_str()),
            (BY_THREADS, "b")
        );
    }
}
