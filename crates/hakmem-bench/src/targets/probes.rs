//! The targets of the probes.

use super::evidence::{Evidence, HAKMEM, absent, best};
use crate::packaged;
use crate::probes::{self, library, purge};
use crate::sample::{ProbeSample, Target};
use crate::stats::median;

/// What is to be reached.
enum Rule {
    /// A figure of its own.
    Below(f64),
    /// A figure relative to one other's.
    Times(f64, &'static str),
    /// A figure relative to the best of the libraries'.
    TimesBest(f64),
    /// A figure of its own, or the best of the libraries', whichever is more.
    BelowOrBest(f64),
    /// A figure of its own, or that of another probe and allocator, whichever is more.
    BelowOr(f64, &'static str, &'static str),
    /// The worst of several probes, whose names begin with this one's.
    Worst(f64),
}

struct Goal {
    /// The probe, or a part of one.
    probe: &'static str,
    rule: Rule,
}

const fn goal(probe: &'static str, rule: Rule) -> Goal {
    Goal { probe, rule }
}

/// So many millions of bytes, in MiB.
const fn megabytes(millions: f64) -> f64 {
    millions * 1e6 / (1 << 20) as f64
}

const GOALS: [Goal; 19] = [
    goal("idle", Rule::Below(45.0)),
    // The figure is what glibc reaches when it is asked to trim.
    goal(
        "sparse",
        Rule::BelowOr(62.0, "sparse_trim", library::SYSTEM),
    ),
    goal("grow_1g", Rule::Times(0.5, "mimalloc")),
    goal("calloc_64m", Rule::Below(10.0)),
    goal("pair_2m", Rule::TimesBest(1.0)),
    goal("pair_64k", Rule::BelowOrBest(32.0)),
    goal("pair_256k", Rule::BelowOrBest(32.0)),
    goal("threads_20k", Rule::Times(1.02, library::SYSTEM)),
    goal("ended_200", Rule::Below(9.0)),
    goal("blocked", Rule::Below(megabytes(60.0))),
    goal("blocked_again", Rule::Below(megabytes(480.0))),
    goal("pool", Rule::Below(megabytes(60.0))),
    goal("keep_random", Rule::Below(megabytes(255.0))),
    goal("keep_random:pages", Rule::Below(1.1)),
    goal("drift:worst", Rule::Below(2.0)),
    goal("drift:mean", Rule::Below(1.6)),
    goal("drift:pages", Rule::Below(1.1)),
    goal(purge::NAME, Rule::Worst(1.02)),
    goal("rust_pair_64", Rule::Times(0.75, "mimalloc")),
];

/// The targets of the probes asked for.
pub fn targets(evidence: &Evidence<'_>) -> Vec<Target> {
    let asked = |goal: &&Goal| {
        let name = goal.probe.split(':').next();
        evidence.asked.iter().any(|p| Some(p.name) == name)
    };
    GOALS
        .iter()
        .filter(asked)
        .map(|goal| target(goal, evidence.probes))
        .collect()
}

fn target(goal: &Goal, samples: &[ProbeSample]) -> Target {
    let (does, unit) = probes::described(goal.probe).unwrap_or_default();
    let reached = Measured {
        probe: goal.probe,
        unit,
        samples,
    }
    .judge(&goal.rule);
    Target {
        name: goal.probe.to_owned(),
        what: does.to_owned(),
        figure: reached.figure,
        limit: reached.limit,
        unit: reached.unit.to_owned(),
        against: reached.against,
    }
}

/// What a rule makes of the figures of a probe.
struct Reached<'a> {
    figure: Option<f64>,
    limit: f64,
    unit: &'a str,
    against: String,
}

/// The figures of one probe, among those of all.
struct Measured<'a> {
    probe: &'a str,
    unit: &'a str,
    samples: &'a [ProbeSample],
}

impl<'a> Measured<'a> {
    fn judge(&self, rule: &Rule) -> Reached<'a> {
        let own = self.of(self.probe, HAKMEM);
        let unit = self.unit;
        let (figure, limit, unit, against) = match *rule {
            Rule::Below(limit) => (own, limit, unit, "a fixed figure".to_owned()),
            Rule::BelowOr(limit, probe, peer) => match self.of(probe, peer) {
                Some(other) if other > limit => (own, other, unit, format!("{peer}, {probe}")),
                _ => (own, limit, unit, "a fixed figure".to_owned()),
            },
            Rule::Times(limit, peer) => {
                let theirs = self.of(self.probe, peer);
                let without = || format!("without {peer}");
                let against = theirs.map_or_else(without, |v| self.shown(peer, v));
                (own.zip(theirs).map(|(a, b)| a / b), limit, "", against)
            }
            Rule::TimesBest(limit) => {
                let ratio = own.zip(self.best_peer()).map(|(own, (_, peer))| own / peer);
                let proven = ratio.filter(|r| self.missing().is_none() || *r > limit);
                (proven, limit, "", self.against_best())
            }
            Rule::BelowOrBest(limit) => {
                let limit = self.best_peer().map_or(limit, |(_, peer)| limit.max(peer));
                (own, limit, unit, self.against_best())
            }
            Rule::Worst(limit) => {
                let worst = self.worst_part();
                let against = worst.map_or("itself", |(part, _)| part);
                (worst.map(|(_, v)| v), limit, unit, against.to_owned())
            }
        };
        Reached {
            figure,
            limit,
            unit,
            against,
        }
    }

    /// The median of a probe on an allocator.
    fn of(&self, probe: &str, allocator: &str) -> Option<f64> {
        let mine = self
            .samples
            .iter()
            .filter(|s| s.probe == probe && s.allocator == allocator);
        median(&mine.map(|s| s.value).collect::<Vec<f64>>())
    }

    fn shown(&self, name: &str, value: f64) -> String {
        format!("{name} {value:.1} {}", self.unit)
    }

    fn best_peer(&self) -> Option<(&'a str, f64)> {
        let peers = self
            .samples
            .iter()
            .filter(|s| s.probe == self.probe && s.allocator != HAKMEM);
        let mut everyone: Vec<&str> = peers.map(|s| s.allocator.as_str()).collect();
        everyone.dedup();
        let figures = everyone.into_iter();
        best(figures.filter_map(|name| Some((name, self.of(self.probe, name)?))))
    }

    /// The peers that have no figure, in words.
    fn missing(&self) -> Option<String> {
        let peers = packaged::ALL.iter().map(|peer| peer.package);
        let expected: Vec<&str> = peers.chain([library::SYSTEM]).collect();
        absent(&expected, |peer| self.of(self.probe, peer).is_some())
    }

    fn against_best(&self) -> String {
        match (self.best_peer(), self.missing()) {
            (Some((name, value)), None) => self.shown(name, value),
            (Some((name, value)), Some(missing)) => {
                format!("{}, {missing}", self.shown(name, value))
            }
            (None, _) => "no peer".to_owned(),
        }
    }

    /// The part of this probe with the highest figure of hakmem.
    fn worst_part(&self) -> Option<(&'a str, f64)> {
        let prefix = format!("{}:", self.probe);
        let figure = |sample: &'a ProbeSample| {
            let part = sample.probe.strip_prefix(&prefix)?;
            Some((part, self.of(&sample.probe, HAKMEM)?))
        };
        let parts = self.samples.iter().filter_map(figure);
        parts.max_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(figures: &[(&str, &str, f64)]) -> Vec<ProbeSample> {
        let sample = |(probe, allocator, value): &(&str, &str, f64)| ProbeSample {
            probe: (*probe).to_owned(),
            allocator: (*allocator).to_owned(),
            round: 0,
            value: *value,
            unit: String::new(),
        };
        figures.iter().map(sample).collect()
    }

    fn judge(probe: &str, figures: &[(&str, f64)]) -> Target {
        let goal = GOALS.iter().find(|g| g.probe == probe);
        let figures: Vec<_> = figures.iter().map(|(a, v)| (probe, *a, *v)).collect();
        target(goal.expect("a goal"), &samples(&figures))
    }

    const PEERS: [(&str, f64); 8] = [
        ("system", 70.0),
        ("libmimalloc3", 62.0),
        ("libsnmalloc", 55.0),
        ("librpmalloc", 80.0),
        ("librusty_alloc", 65.0),
        ("libmimalloc2.0", 60.0),
        ("libjemalloc2", 500.0),
        ("libtcmalloc-minimal4", 40.0),
    ];

    fn beside_all(probe: &str, own: f64) -> Target {
        let mut figures = vec![("hakmem", own)];
        figures.extend(PEERS);
        judge(probe, &figures)
    }

    #[test]
    fn a_fixed_figure_needs_no_peer_but_needs_a_figure() {
        assert!(
            judge(
                "idle",
                &[("hakmem", 44.0), ("hakmem", 99.0), ("hakmem", 45.0)]
            )
            .met()
        );
        assert!(!judge("idle", &[("hakmem", 45.1)]).met());
        assert_eq!(judge("idle", &[("system", 20.0)]).figure, None);
        assert_eq!(judge("idle", &[]).figure, None);
    }

    #[test]
    fn few_blocks_may_cost_what_they_cost_the_system_that_trims() {
        let goal = GOALS.iter().find(|g| g.probe == "sparse").expect("a goal");
        let mut figures = samples(&[("sparse", "hakmem", 63.0), ("sparse", "system", 490.0)]);
        assert_eq!(target(goal, &figures).limit, 62.0);
        figures.extend(samples(&[("sparse_trim", "system", 64.0)]));
        let reached = target(goal, &figures);
        assert!(reached.met() && reached.limit == 64.0, "{reached:?}");
    }

    #[test]
    fn a_ratio_needs_its_peer() {
        assert!(judge("threads_20k", &[("hakmem", 10.2), ("system", 10.0)]).met());
        assert!(!judge("threads_20k", &[("hakmem", 10.3), ("system", 10.0)]).met());
        let alone = judge("rust_pair_64", &[("hakmem", 1.0), ("system", 10.0)]);
        assert_eq!(
            (alone.figure, alone.against.as_str()),
            (None, "without mimalloc")
        );
    }

    #[test]
    fn the_best_of_the_libraries_is_known_only_if_all_are_there() {
        assert_eq!(beside_all("pair_2m", 40.0).figure, Some(1.0));
        assert!(beside_all("pair_2m", 40.0).met() && !beside_all("pair_2m", 41.0).met());
        let ahead_of_one = judge("pair_2m", &[("hakmem", 50.0), PEERS[0]]);
        assert_eq!(ahead_of_one.figure, None);
        let behind_one = judge("pair_2m", &[("hakmem", 80.0), PEERS[0]]);
        assert!(behind_one.figure.is_some() && !behind_one.met());
    }

    #[test]
    fn the_better_of_a_figure_and_a_peer_that_is_behind_it() {
        assert_eq!(beside_all("pair_64k", 39.0).limit, 40.0);
        assert!(beside_all("pair_64k", 39.0).met() && !beside_all("pair_64k", 41.0).met());
        let fast_peer = judge(
            "pair_64k",
            &[("hakmem", 31.0), ("libtcmalloc-minimal4", 20.0)],
        );
        assert!(fast_peer.met() && fast_peer.limit == 32.0);
    }

    #[test]
    fn the_worst_loop_is_the_cost_of_purging() {
        let goal = GOALS.iter().find(|g| g.probe == purge::NAME);
        let figures = samples(&[
            ("purge_cost:a", "hakmem", 1.01),
            ("purge_cost:b", "hakmem", 1.09),
            ("purge_cost:b", "hakmem", 1.03),
            ("purge_cost:b", "hakmem", 1.05),
        ]);
        let target = target(goal.expect("a goal"), &figures);
        assert_eq!((target.figure, target.against.as_str()), (Some(1.05), "b"));
    }

    #[test]
    fn every_goal_is_about_a_probe() {
        assert!(GOALS.iter().all(|g| probes::described(g.probe).is_some()));
    }
    #[test]
    fn a_part_of_a_probe_has_a_target_if_the_probe_was_asked_for() {
        let of = |name: &str| {
            let probe = probes::find(name).expect("a probe");
            let evidence = Evidence {
                summary: &crate::report::Summary::new(&[], &[], "", &[], &[]),
                preloaded: false,
                all_workloads: false,
                asked: &[probe],
                curves: &[],
                probes: &samples(&[("drift:worst", "hakmem", 1.9)]),
                series: &[],
            };
            let met = |t: Target| (t.name.clone(), t.unit.clone(), t.met());
            targets(&evidence).into_iter().map(met).collect::<Vec<_>>()
        };
        let drift = of("drift");
        assert_eq!(drift.len(), 3);
        assert_eq!(drift[0], ("drift:worst".to_owned(), String::new(), true));
        assert!(!drift[1].2);
        assert_eq!(of("keep_random").len(), 2);
        assert!(of("keep_runs").is_empty());
    }
}
