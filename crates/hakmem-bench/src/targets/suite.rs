//! The targets of workloads and of programs: each by itself, and all of them in the mean.

use super::evidence::{Evidence, HAKMEM, PEERS, absent, best};
use crate::packaged;
use crate::probes::library;
use crate::report::{Row, Summary};
use crate::sample::Target;
use crate::stats::geomean;

/// A figure of a row.
struct Kind {
    of: fn(&Row) -> Option<f64>,
    /// How it is called in the names of targets.
    name: &'static str,
    /// In the words of targets.
    words: &'static str,
    /// How a peer's is shown.
    show: fn(f64) -> String,
}

const TIME: Kind = Kind {
    of: |row| row.nanos,
    name: "time",
    words: "median time",
    show: |nanos| format!("{:.1} ms", nanos / 1e6),
};

const MEMORY: Kind = Kind {
    of: |row| row.max_rss_kib,
    name: "memory",
    words: "median peak resident memory",
    show: |kib| format!("{:.1} MiB", kib / 1024.0),
};

/// What is to be reached in one kind of comparison.
struct Aims {
    /// What one row is about, and all of them, in the names of targets.
    one: &'static str,
    all: &'static str,
    /// Who is to be there.
    peers: Vec<&'static str>,
    /// Relative to the best peer of each row.
    each: &'static [(Kind, f64)],
    /// The mean relative to that peer's which is hardest to reach.
    best: Option<(Kind, f64)>,
    /// Means relative to those of one peer.
    means: &'static [(Kind, &'static str, f64)],
}

fn built_in() -> Aims {
    Aims {
        one: "",
        all: "workloads",
        peers: PEERS.to_vec(),
        each: &[(TIME, 1.0), (MEMORY, 1.1)],
        best: None,
        means: &[
            (TIME, "snmalloc", 0.90),
            (TIME, "mimalloc", 0.88),
            (MEMORY, "snmalloc", 0.75),
        ],
    }
}

fn preloaded() -> Aims {
    let libraries = packaged::ALL.iter().map(|peer| peer.package);
    Aims {
        one: "preloaded ",
        all: "preloaded workloads",
        peers: libraries.chain([library::SYSTEM]).collect(),
        each: &[(TIME, 1.0)],
        best: Some((TIME, 1.0)),
        means: &[(MEMORY, "libsnmalloc", 0.80)],
    }
}

fn programs() -> Aims {
    let libraries = packaged::ALL.iter().map(|peer| peer.name);
    Aims {
        one: "program ",
        all: "programs",
        peers: libraries.chain([library::SYSTEM]).collect(),
        each: &[(TIME, 1.01)],
        best: Some((TIME, 0.97)),
        means: &[(MEMORY, "snmalloc", 1.0)],
    }
}

fn aims(evidence: &Evidence<'_>) -> Aims {
    match evidence.preloaded {
        true => preloaded(),
        false => built_in(),
    }
}

/// The targets of the means over workloads, if all of them were compared.
pub fn geomeans(evidence: &Evidence<'_>) -> Vec<Target> {
    match evidence.all_workloads {
        true => aims(evidence).of_all(evidence.summary),
        false => Vec::new(),
    }
}

/// The targets of each workload that was compared.
pub fn workloads(evidence: &Evidence<'_>) -> Vec<Target> {
    aims(evidence).of_each(evidence.summary)
}

/// The targets of a comparison of whole programs; those of the means only if it has `all` that are
/// installed.
pub fn of_programs(summary: &Summary, all: bool) -> Vec<Target> {
    let aims = programs();
    let mut targets = match all {
        true => aims.of_all(summary),
        false => Vec::new(),
    };
    targets.extend(aims.of_each(summary));
    targets
}

impl Aims {
    fn of_all(&self, summary: &Summary) -> Vec<Target> {
        let best = self.best.iter();
        let best = best.map(|(kind, limit)| self.beside_best(summary, kind, *limit));
        let means = self.means.iter();
        let means = means.map(|(kind, peer, limit)| self.beside(summary, kind, peer, *limit));
        best.chain(means).collect()
    }

    fn of_each(&self, summary: &Summary) -> Vec<Target> {
        let mine = summary.rows.iter().filter(|r| r.allocator == HAKMEM);
        mine.flat_map(|row| {
            let one = |(kind, limit): &(Kind, f64)| self.of_row(kind, *limit, row, &summary.rows);
            self.each.iter().map(one)
        })
        .collect()
    }

    /// The mean relative to that of `peer`.
    fn beside(&self, summary: &Summary, kind: &Kind, peer: &str, limit: f64) -> Target {
        let ratios = ratios(summary, kind, peer);
        let all = self.all;
        Target {
            name: format!("{} of all {all}, × {peer}", kind.name),
            what: format!(
                "geometric mean over the {all} of the {} relative to that of {peer}",
                kind.words
            ),
            figure: geomean(&ratios),
            limit,
            unit: String::new(),
            against: match ratios.len() {
                0 => format!("without {peer}"),
                n => format!("{peer}, {n} {all}"),
            },
        }
    }

    /// The mean relative to that of the best peer, which is the one beside which it is highest.
    fn beside_best(&self, summary: &Summary, kind: &Kind, limit: f64) -> Target {
        let mean = |peer: &&'static str| Some((*peer, geomean(&ratios(summary, kind, peer))?));
        let worst = self.peers.iter().filter_map(mean);
        let worst = worst.max_by(|(_, a), (_, b)| a.total_cmp(b));
        let missing = absent(&self.peers, |peer| !ratios(summary, kind, peer).is_empty());
        let figure = worst.map(|(_, ratio)| ratio);
        let named = worst.map(|(peer, _)| peer.to_owned());
        let words = [named, missing.clone()];
        let against: Vec<String> = words.into_iter().flatten().collect();
        Target {
            name: format!("{} of all {}, × best peer", kind.name, self.all),
            what: format!(
                "geometric mean over the {} of the {} relative to that of the best peer",
                self.all, kind.words
            ),
            figure: figure.filter(|f| missing.is_none() || *f > limit),
            limit,
            unit: String::new(),
            against: against.join(", "),
        }
    }

    fn of_row(&self, kind: &Kind, limit: f64, mine: &Row, rows: &[Row]) -> Target {
        let is_there = |peer: &&&str| rows.iter().any(|r| r.allocator == **peer);
        let present = self.peers.iter().filter(is_there).count();
        let peers = rows
            .iter()
            .filter(|r| r.workload == mine.workload && r.allocator != HAKMEM);
        let best = best(peers.filter_map(|r| Some((r.allocator.as_str(), (kind.of)(r)?))));
        let figure = (kind.of)(mine).zip(best).map(|(own, (_, peer))| own / peer);
        let all = present == self.peers.len();
        let against = match best {
            Some((name, figure)) if all => format!("{name} {}", (kind.show)(figure)),
            Some((name, figure)) => {
                let shown = (kind.show)(figure);
                format!("{name} {shown} ({present} of {} peers)", self.peers.len())
            }
            None => "no peer".to_owned(),
        };
        let subject = format!("{}{}", self.one, mine.workload);
        Target {
            name: format!("{} of {subject}", kind.name),
            what: format!("{} of {subject} relative to the best peer's", kind.words),
            // Behind one of them is behind the best; ahead of some is not yet ahead of all.
            figure: figure.filter(|f| all || *f > limit),
            limit,
            unit: String::new(),
            against,
        }
    }
}

/// hakmem's figures relative to those of `peer`, by workload.
fn ratios(summary: &Summary, kind: &Kind, peer: &str) -> Vec<f64> {
    let of = |workload: &str, allocator: &str| {
        let row = summary
            .rows
            .iter()
            .find(|r| r.workload == workload && r.allocator == allocator)?;
        (kind.of)(row)
    };
    let mine = summary.rows.iter().filter(|r| r.allocator == HAKMEM);
    mine.filter_map(|row| Some((kind.of)(row)? / of(&row.workload, peer)?))
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    /// Of the time and memory of allocators on workloads.
    fn summary(figures: &[(&str, &str, u64, u64)]) -> Summary {
        let sample = |&(workload, allocator, nanos, kib): &(&str, &str, u64, u64)| {
            Sample::of(workload, allocator, nanos, kib)
        };
        let samples: Vec<Sample> = figures.iter().map(sample).collect();
        let distinct = |of: fn(&Sample) -> &String| {
            let mut names: Vec<String> = samples.iter().map(|s| of(s).clone()).collect();
            names.sort();
            names.dedup();
            names
        };
        let (workloads, names) = (distinct(|s| &s.workload), distinct(|s| &s.allocator));
        Summary::new(&workloads, &names, "system", &samples, &[])
    }

    /// Name, time, memory of each allocator on one workload.
    fn targets(figures: &[(&str, u64, u64)]) -> Vec<Target> {
        let figures: Vec<_> = figures.iter().map(|&(a, n, k)| ("w", a, n, k)).collect();
        all_targets(&summary(&figures), false)
    }

    fn all_targets(summary: &Summary, preloaded: bool) -> Vec<Target> {
        let evidence = Evidence {
            summary,
            preloaded,
            all_workloads: true,
            asked: &[],
            curves: &[],
            probes: &[],
            series: &[],
        };
        let mut targets = geomeans(&evidence);
        targets.extend(workloads(&evidence));
        targets
    }

    const ALL: [(&str, u64, u64); 7] = [
        ("hakmem", 880, 1100),
        ("system", 2000, 1000),
        ("mimalloc", 1000, 2000),
        ("snmalloc", 900, 1200),
        ("jemalloc", 3000, 1300),
        ("rpmalloc", 990, 1400),
        ("rusty_alloc", 1500, 1500),
    ];

    fn figure(targets: &[Target], name: &str) -> (Option<f64>, bool) {
        let target = targets.iter().find(|t| t.name == name);
        let target = target.unwrap_or_else(|| panic!("no target '{name}' in {targets:?}"));
        (
            target.figure.map(|f| (f * 1000.0).round() / 1000.0),
            target.met(),
        )
    }

    #[test]
    fn each_workload_is_held_against_its_best_peer() {
        let t = targets(&ALL);
        assert_eq!(figure(&t, "time of w"), (Some(0.978), true));
        assert_eq!(figure(&t, "memory of w"), (Some(1.1), true));
        assert_eq!(
            figure(&t, "time of all workloads, × snmalloc"),
            (Some(0.978), false)
        );
        assert_eq!(
            figure(&t, "time of all workloads, × mimalloc"),
            (Some(0.88), true)
        );
        assert_eq!(
            figure(&t, "memory of all workloads, × snmalloc"),
            (Some(0.917), false)
        );
        let time = t
            .iter()
            .find(|t| t.name == "time of w")
            .expect("it is there");
        assert!(time.against.starts_with("snmalloc "), "{}", time.against);
    }

    #[test]
    fn with_a_peer_absent_nothing_is_met_and_what_is_missed_is_missed() {
        let without = [ALL[0], ALL[1], ALL[2]];
        let t = targets(&without);
        assert_eq!(figure(&t, "time of w"), (None, false));
        assert!(t[3].against.ends_with("(2 of 6 peers)"), "{:?}", t[3]);
        assert_eq!(
            figure(&t, "time of all workloads, × snmalloc"),
            (None, false)
        );
        assert_eq!(
            figure(&t, "time of all workloads, × mimalloc"),
            (Some(0.88), true)
        );
        let slow = targets(&[("hakmem", 3000, 900), ALL[1], ALL[2]]);
        assert_eq!(figure(&slow, "time of w"), (Some(3.0), false));
        let alone = targets(&[ALL[0]]);
        assert_eq!(figure(&alone, "memory of w"), (None, false));
    }

    /// The time on two workloads of hakmem, of one peer, and of all others.
    fn beside(peers: &[&'static str], own: [u64; 2], one: [u64; 2], others: [u64; 2]) -> Summary {
        let mut figures = Vec::new();
        for (i, workload) in ["v", "w"].into_iter().enumerate() {
            figures.push((workload, "hakmem", own[i], 1000));
            for (number, peer) in peers.iter().enumerate() {
                let nanos = if number == 0 { one[i] } else { others[i] };
                figures.push((workload, *peer, nanos, 2000));
            }
        }
        summary(&figures)
    }

    #[test]
    fn preloaded_workloads_are_held_against_the_libraries() {
        let peers = preloaded().peers;
        // One peer is best at v, and the others at w, but in the mean the first one is best.
        let t = all_targets(&beside(&peers, [90, 100], [100, 100], [400, 90]), true);
        assert_eq!(figure(&t, "time of preloaded v"), (Some(0.9), true));
        assert_eq!(figure(&t, "time of preloaded w"), (Some(1.111), false));
        let best = "time of all preloaded workloads, × best peer";
        assert_eq!(figure(&t, best), (Some(0.949), true));
        let memory = "memory of all preloaded workloads, × libsnmalloc";
        assert_eq!(figure(&t, memory), (Some(0.5), true));
        assert_eq!(t.len(), 4);
        let fewer = all_targets(&beside(&peers[..3], [90, 100], [100, 100], [400, 90]), true);
        assert_eq!(
            figure(&fewer, best),
            (None, false),
            "the best may be absent"
        );
    }

    #[test]
    fn programs_are_held_against_the_best_peer_overall_and_of_each() {
        let peers = programs().peers;
        let summary = beside(&peers, [101, 95], [100, 100], [300, 300]);
        let t = of_programs(&summary, true);
        assert_eq!(figure(&t, "time of program v"), (Some(1.01), true));
        assert_eq!(figure(&t, "time of program w"), (Some(0.95), true));
        assert_eq!(
            figure(&t, "time of all programs, × best peer"),
            (Some(0.98), false)
        );
        assert_eq!(
            figure(&t, "memory of all programs, × snmalloc"),
            (Some(0.5), true)
        );
        assert_eq!(
            of_programs(&summary, false).len(),
            2,
            "no means over some of them"
        );
    }

    #[test]
    fn without_hakmem_workloads_have_no_targets() {
        assert!(
            targets(&ALL[1..])
                .iter()
                .all(|t| t.figure.is_none() && !t.name.ends_with("of w"))
        );
    }
}
