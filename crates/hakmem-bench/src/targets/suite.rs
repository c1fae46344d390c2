//! The targets of the workloads: each by itself, and all of them in the mean.

use super::evidence::{Evidence, HAKMEM, PEERS, best};
use crate::report::{Row, Summary};
use crate::sample::Target;
use crate::stats::geomean;

/// A figure of a row, and what is to be reached with it.
struct Kind {
    of: fn(&Row) -> Option<f64>,
    /// How it is called in the names of targets.
    name: &'static str,
    /// In the words of targets.
    words: &'static str,
    /// How a peer's is shown.
    show: fn(f64) -> String,
    /// Relative to the best peer of a workload.
    limit: f64,
}

const TIME: Kind = Kind {
    of: |row| row.nanos,
    name: "time",
    words: "median time",
    show: |nanos| format!("{:.1} ms", nanos / 1e6),
    limit: 1.0,
};

const MEMORY: Kind = Kind {
    of: |row| row.max_rss_kib,
    name: "memory",
    words: "median peak resident memory",
    show: |kib| format!("{:.1} MiB", kib / 1024.0),
    limit: 1.1,
};

/// Means over all workloads: the figure, the peer, what is to be reached relative to it.
const MEANS: [(&Kind, &str, f64); 3] = [
    (&TIME, "snmalloc", 0.90),
    (&TIME, "mimalloc", 0.88),
    (&MEMORY, "snmalloc", 0.75),
];

/// The targets of the means, if all workloads were compared.
pub fn geomeans(evidence: &Evidence<'_>) -> Vec<Target> {
    if !evidence.all_workloads {
        return Vec::new();
    }
    MEANS
        .iter()
        .map(|(kind, peer, limit)| {
            let ratios = ratios(evidence.summary, kind, peer);
            Target {
                name: format!("{} of all workloads, × {peer}", kind.name),
                what: format!(
                    "geometric mean over the workloads of the {} relative to that of {peer}",
                    kind.words
                ),
                figure: geomean(&ratios),
                limit: *limit,
                unit: String::new(),
                against: match ratios.len() {
                    0 => format!("without {peer}"),
                    n => format!("{peer}, {n} workloads"),
                },
            }
        })
        .collect()
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

/// The targets of each workload that was compared.
pub fn workloads(evidence: &Evidence<'_>) -> Vec<Target> {
    let rows = &evidence.summary.rows;
    let present = |peer: &&&str| rows.iter().any(|r| r.allocator == **peer);
    let present = PEERS.iter().filter(present).count();
    let mine = rows.iter().filter(|r| r.allocator == HAKMEM);
    mine.flat_map(|row| [&TIME, &MEMORY].map(|kind| workload(kind, row, rows, present)))
        .collect()
}

fn workload(kind: &Kind, mine: &Row, rows: &[Row], present: usize) -> Target {
    let peers = rows
        .iter()
        .filter(|r| r.workload == mine.workload && r.allocator != HAKMEM);
    let best = best(peers.filter_map(|r| Some((r.allocator.as_str(), (kind.of)(r)?))));
    let figure = (kind.of)(mine).zip(best).map(|(own, (_, peer))| own / peer);
    let all = present == PEERS.len();
    let against = match best {
        Some((name, figure)) if all => format!("{name} {}", (kind.show)(figure)),
        Some((name, figure)) => {
            let shown = (kind.show)(figure);
            format!("{name} {shown} ({present} of {} peers)", PEERS.len())
        }
        None => "no peer".to_owned(),
    };
    Target {
        name: format!("{} of {}", kind.name, mine.workload),
        what: format!(
            "{} of {} relative to the best peer's",
            kind.words, mine.workload
        ),
        // Behind one of them is behind the best; ahead of some is not yet ahead of all.
        figure: figure.filter(|f| all || *f > kind.limit),
        limit: kind.limit,
        unit: String::new(),
        against,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    /// Name, time, memory of each allocator on one workload.
    fn targets(figures: &[(&str, u64, u64)]) -> Vec<Target> {
        let sample =
            |&(allocator, nanos, kib): &(&str, u64, u64)| Sample::of("w", allocator, nanos, kib);
        let samples: Vec<Sample> = figures.iter().map(sample).collect();
        let names: Vec<String> = figures.iter().map(|(a, _, _)| (*a).to_owned()).collect();
        let summary = Summary::new(&["w".to_owned()], &names, "system", &samples, &[]);
        let evidence = Evidence {
            summary: &summary,
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

    const ALL: [(&str, u64, u64); 6] = [
        ("hakmem", 880, 1100),
        ("system", 2000, 1000),
        ("mimalloc", 1000, 2000),
        ("snmalloc", 900, 1200),
        ("jemalloc", 3000, 1300),
        ("rpmalloc", 990, 1400),
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
        assert!(t[3].against.ends_with("(2 of 5 peers)"), "{:?}", t[3]);
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

    #[test]
    fn without_hakmem_workloads_have_no_targets() {
        assert!(
            targets(&ALL[1..])
                .iter()
                .all(|t| t.figure.is_none() && !t.name.ends_with("of w"))
        );
    }
}
