//! Takes the probes: each figure in a fresh process, the contenders of a probe one after the other.

use super::contender::Contender;
use super::library::{HAKMEM, Library};
use super::under::{command, timed};
use super::watch::{Points, Seen, watch};
use super::{Figure, MIB, Probe, figures, purge};
use crate::progress::Progress;
use crate::sample::{ChildLine, Failure, ProbeSample, Series};
use std::time::Duration;

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
        if let (Figure::Purging, Contender::Preloaded(library)) = (probe.figure, contender) {
            let Outcome {
                samples, failures, ..
            } = outcome;
            return purge::pairs(library, self.scale, round, samples, failures);
        }
        let allocator = contender.name();
        match self.figures(probe, contender, round, &mut outcome.series) {
            Ok(figures) => {
                let sample = |(probe, value, unit): figures::Named| ProbeSample {
                    probe,
                    allocator: allocator.to_owned(),
                    round,
                    value,
                    unit: unit.to_owned(),
                };
                outcome.samples.extend(figures.into_iter().map(sample));
            }
            Err(what) => outcome.failures.push(Failure {
                workload: probe.name.to_owned(),
                allocator: allocator.to_owned(),
                what,
            }),
        }
    }

    fn figures(
        &self,
        probe: &Probe,
        contender: Contender<'_>,
        round: u32,
        series: &mut Vec<Series>,
    ) -> Result<Vec<figures::Named>, String> {
        match (probe.figure, contender) {
            (Figure::Resident(..) | Figure::Phases(_), Contender::Preloaded(library)) => {
                let seen = resident(library, probe)?;
                let figures = figures::of(probe, &seen);
                if round == 0 {
                    series.extend(curve(probe, library, seen.points));
                }
                Ok(figures)
            }
            (Figure::Calls, Contender::Preloaded(library)) => {
                let line = timed(library, probe.name, self.scale, |_| ())?;
                Ok(parts(probe, line))
            }
            (Figure::Peak, Contender::BuiltIn(_)) => {
                let sample = contender.sample(probe.name, "full", round)?;
                Ok(own(probe, sample.max_rss_kib as f64 / 1024.0))
            }
            (Figure::PerOperation(unit), _) => {
                let (nanos, ops) = self.time(probe, contender)?;
                Ok(own(probe, nanos as f64 / ops as f64 / unit))
            }
            (Figure::Total, _) => {
                let (nanos, _) = self.time(probe, contender)?;
                Ok(own(probe, nanos as f64 / 1e6))
            }
            (Figure::Peak | Figure::Purging, Contender::Preloaded(_)) => {
                Err("taken on built-in allocators only".to_owned())
            }
            (_, Contender::BuiltIn(_)) => Err("taken on preloaded libraries only".to_owned()),
        }
    }

    /// Nanoseconds and operations.
    fn time(&self, probe: &Probe, contender: Contender<'_>) -> Result<(u64, u64), String> {
        // A total is one of all operations, at any scale of the rest.
        let scale = match probe.figure {
            Figure::Total if self.scale == "quick" => "full",
            _ => self.scale,
        };
        let sample = contender.sample(probe.name, scale, 0)?;
        Ok((sample.nanos, sample.ops))
    }
}

/// The one figure of a probe.
fn own(probe: &Probe, value: f64) -> Vec<figures::Named> {
    vec![(probe.name.to_owned(), value, probe.unit)]
}

/// The figures that the process itself has found.
fn parts(probe: &Probe, line: ChildLine) -> Vec<figures::Named> {
    let part = |(name, value)| (format!("{}:{name}", probe.name), value, probe.unit);
    line.figures.into_iter().map(part).collect()
}

/// A probe of memory has one scale: less of it would be another figure.
fn resident(library: &Library, probe: &Probe) -> Result<Seen, String> {
    let idle = match probe.figure {
        Figure::Resident(idle, _) => idle,
        _ => Duration::ZERO,
    };
    let mut command = command(library, probe.name, "full").map_err(|e| e.to_string())?;
    watch(&mut command, idle)
}

/// The curve of memory over time, if the probe has one. Phases count from the start of the process.
fn curve(probe: &Probe, library: &Library, mut points: Points) -> Option<Series> {
    let (name, x) = match probe.figure {
        Figure::Resident(_, name) => (name?, "seconds since the frees"),
        Figure::Phases(name) => {
            let start = points.first().map_or(0.0, |(at, _)| *at);
            points.iter_mut().for_each(|(at, _)| *at -= start);
            (name, "seconds since the start")
        }
        _ => return None,
    };
    Some(Series {
        name: name.to_owned(),
        allocator: library.name.clone(),
        x: x.to_owned(),
        y: MIB.to_owned(),
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes;

    #[test]
    fn a_curve_of_phases_begins_at_the_start_of_the_process() {
        let library = Library {
            name: "a".to_owned(),
            path: None,
        };
        let of = |name: &str| {
            let probe = probes::find(name).expect("a probe");
            curve(probe, &library, vec![(-2.0, 1.0), (0.0, 3.0)])
        };
        let drift = of("drift").expect("it has a curve");
        assert_eq!(drift.points, [(0.0, 1.0), (2.0, 3.0)]);
        let pool = of("pool").expect("it has a curve");
        assert_eq!(pool.points, [(-2.0, 1.0), (0.0, 3.0)]);
        assert!(of("keep_runs").is_none());
    }
}
