//! Takes the probes: each figure in a fresh process, the contenders of a probe one after the other.

use super::library::{HAKMEM, Library};
use super::under::{command, timed};
use super::watch::{Points, watch};
use super::{Figure, Probe, purge};
use crate::measure;
use crate::progress::Progress;
use crate::sample::{Failure, ProbeSample, Series};

/// What to take.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The probes.
    pub probes: &'a [&'static Probe],
    /// The libraries to preload.
    pub libraries: &'a [Library],
    /// The built-in allocators in the comparison.
    pub allocators: &'a [String],
    /// The scale of the timed ones.
    pub scale: &'a str,
    /// Times that each is taken.
    pub rounds: u32,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Every figure.
    pub samples: Vec<ProbeSample>,
    /// Memory over time, of the first round.
    pub series: Vec<Series>,
    /// Figures that are missing.
    pub failures: Vec<Failure>,
}

/// One side of a probe.
#[derive(Debug, Clone, Copy)]
enum Contender<'a> {
    Preloaded(&'a Library),
    BuiltIn(&'a str),
}

impl Contender<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Preloaded(library) => &library.name,
            Self::BuiltIn(name) => name,
        }
    }
}

impl Plan<'_> {
    fn contenders(&self, probe: &Probe) -> Vec<Contender<'_>> {
        let libraries = self.libraries.iter().filter(|l| match probe.figure {
            Figure::Purging => l.name == HAKMEM,
            _ => probe.libraries,
        });
        let built_in = self.allocators.iter().filter(|a| (probe.built_in)(a));
        libraries
            .map(Contender::Preloaded)
            .chain(built_in.map(|a| Contender::BuiltIn(a)))
            .collect()
    }

    /// Takes all of them; what fails is noted, and the rest goes on.
    pub fn run(&self) -> Outcome {
        let figures: usize = self.probes.iter().map(|p| self.contenders(p).len()).sum();
        let progress = Progress::new(u64::from(self.rounds) * figures as u64);
        let mut outcome = Outcome::default();
        for round in 0..self.rounds {
            progress.stage(&format!("probes, round {} of {}", round + 1, self.rounds));
            for probe in self.probes {
                let contenders = self.contenders(probe);
                for i in 0..contenders.len() {
                    // As with workloads: each time another one begins.
                    let contender = contenders[(round as usize + i) % contenders.len()];
                    progress.step(format!("{} on {}", probe.name, contender.name()));
                    self.take(probe, contender, round, &mut outcome);
                    progress.done();
                }
            }
        }
        outcome
    }

    fn take(&self, probe: &Probe, contender: Contender<'_>, round: u32, outcome: &mut Outcome) {
        let value = match (probe.figure, contender) {
            (Figure::Purging, Contender::Preloaded(library)) => {
                let Outcome {
                    samples, failures, ..
                } = outcome;
                return purge::pairs(library, self.scale, round, samples, failures);
            }
            (Figure::Resident(idle, curve), Contender::Preloaded(library)) => {
                resident(library, probe, idle).map(|points| {
                    let last = points.last().map_or(f64::NAN, |(_, mib)| *mib);
                    if let Some(curve) = curve.filter(|_| round == 0) {
                        outcome.series.push(Series {
                            name: curve.to_owned(),
                            allocator: library.name.clone(),
                            x: "seconds since the frees".to_owned(),
                            y: probe.unit.to_owned(),
                            points,
                        });
                    }
                    last
                })
            }
            (Figure::Resident(..) | Figure::Purging, Contender::BuiltIn(_)) => {
                Err("taken on preloaded libraries only".to_owned())
            }
            (Figure::Peak, Contender::Preloaded(_)) => {
                Err("taken on built-in allocators only".to_owned())
            }
            (Figure::Peak, Contender::BuiltIn(allocator)) => {
                measure::one(probe.name, allocator, "full", round)
                    .map(|sample| sample.max_rss_kib as f64 / 1024.0)
            }
            (Figure::PerOperation(unit), _) => self
                .time(probe, contender)
                .map(|(nanos, ops)| nanos as f64 / ops as f64 / unit),
            (Figure::Total, _) => self
                .time(probe, contender)
                .map(|(nanos, _)| nanos as f64 / 1e6),
        };
        match value {
            Ok(value) => outcome.samples.push(ProbeSample {
                probe: probe.name.to_owned(),
                allocator: contender.name().to_owned(),
                round,
                value,
                unit: probe.unit.to_owned(),
            }),
            Err(what) => outcome.failures.push(Failure {
                workload: probe.name.to_owned(),
                allocator: contender.name().to_owned(),
                what,
            }),
        }
    }

    /// Nanoseconds and operations.
    fn time(&self, probe: &Probe, contender: Contender<'_>) -> Result<(u64, u64), String> {
        // A total is one of all operations, at any scale of the rest.
        let scale = match probe.figure {
            Figure::Total if self.scale == "quick" => "full",
            _ => self.scale,
        };
        match contender {
            Contender::Preloaded(library) => {
                timed(library, probe.name, scale, |_| ()).map(|line| (line.nanos, line.ops))
            }
            Contender::BuiltIn(allocator) => measure::one(probe.name, allocator, scale, 0)
                .map(|sample| (sample.nanos, sample.ops)),
        }
    }
}

/// A probe of memory has one scale: less of it would be another figure.
fn resident(library: &Library, probe: &Probe, idle: std::time::Duration) -> Result<Points, String> {
    let mut command = command(library, probe.name, "full").map_err(|e| e.to_string())?;
    watch(&mut command, idle)
}
