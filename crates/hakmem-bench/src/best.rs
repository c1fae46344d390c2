//! One line per workload: hakmem beside the fastest and the leanest of its peers.

use crate::report::{Row, Summary, cell, markdown};
use crate::stats::geomean;

/// The allocator that the others are peers of.
const SUBJECT: &str = "hakmem";

/// hakmem's figure of a workload beside the lowest one of a peer.
struct Beside {
    own: Option<f64>,
    best: Option<(String, f64)>,
}

impl Beside {
    fn new(rows: &[&Row], figure: fn(&Row) -> Option<f64>) -> Self {
        let own = rows.iter().find(|r| r.allocator == SUBJECT);
        let peers = rows.iter().filter(|r| r.allocator != SUBJECT);
        Self {
            own: own.and_then(|r| figure(r)),
            best: peers
                .filter_map(|r| Some((r.allocator.clone(), figure(r)?)))
                .min_by(|(_, a), (_, b)| a.total_cmp(b)),
        }
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.own? / self.best.as_ref()?.1).filter(|r| r.is_finite() && *r > 0.0)
    }

    /// Our figure, the ratio, the peer and its figure, both in units of `unit`.
    fn cells(&self, unit: f64) -> [String; 3] {
        let shown = |value: f64| format!("{:.1}", value / unit);
        [
            cell(self.own.map(shown)),
            cell(self.ratio().map(|r| format!("{r:.2}"))),
            cell(
                self.best
                    .as_ref()
                    .map(|(n, v)| format!("{n} {}", shown(*v))),
            ),
        ]
    }
}

/// The table, in Markdown; `None` without workloads, without hakmem, or with fewer than two peers,
/// between which there is nothing to choose.
pub fn table(summary: &Summary) -> Option<String> {
    let allocators = summary.overall.iter();
    let (own, peers): (Vec<_>, Vec<_>) = allocators.partition(|o| o.allocator == SUBJECT);
    if summary.rows.is_empty() || own.is_empty() || peers.len() < 2 {
        return None;
    }
    let mut workloads: Vec<&str> = Vec::new();
    for row in &summary.rows {
        if !workloads.contains(&row.workload.as_str()) {
            workloads.push(&row.workload);
        }
    }
    let (mut times, mut sizes, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for workload in workloads {
        let here = summary.rows.iter().filter(|r| r.workload == workload);
        let here: Vec<&Row> = here.collect();
        let time = Beside::new(&here, |r| r.nanos);
        let size = Beside::new(&here, |r| r.max_rss_kib);
        times.extend(time.ratio());
        sizes.extend(size.ratio());
        let mut cells = vec![workload.to_owned()];
        // The peer's name comes first, where tables are aligned to the left.
        let [own, ratio, best] = time.cells(1e6);
        cells.extend([best, own, ratio]);
        let [own, ratio, best] = size.cells(1024.0);
        cells.extend([best, own, ratio]);
        rows.push(cells);
    }
    let mean = |ratios: &[f64]| cell(geomean(ratios).map(|r| format!("{r:.3}")));
    let blank = String::new;
    rows.push(vec![
        "geomean".to_owned(),
        blank(),
        blank(),
        mean(&times),
        blank(),
        blank(),
        mean(&sizes),
    ]);
    let header = [
        "workload",
        "fastest peer, ms",
        "hakmem, ms",
        "× fastest",
        "leanest peer, MiB",
        "hakmem, MiB",
        "× leanest",
    ];
    Some(markdown(&header, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn summary(figures: &[(&str, u64, u64)]) -> Summary {
        let sample =
            |&(allocator, nanos, kib): &(&str, u64, u64)| Sample::of("w", allocator, nanos, kib);
        let samples: Vec<Sample> = figures.iter().map(sample).collect();
        let mut names: Vec<String> = figures.iter().map(|f| f.0.to_owned()).collect();
        names.push("absent".to_owned());
        Summary::new(&["w".to_owned()], &names, "a", &samples, &[])
    }

    #[test]
    fn the_fastest_and_the_leanest_peer_are_named() {
        let figures = [
            ("hakmem", 1_000_000, 4096),
            ("a", 4_000_000, 2048),
            ("b", 2_000_000, 8192),
        ];
        let table = table(&summary(&figures)).expect("three peers");
        let line = |n| table.lines().nth(n).expect("a row").replace(' ', "");
        assert_eq!(line(2), "|w|b2.0|1.0|0.50|a2.0|4.0|2.00|");
        assert_eq!(line(3), "|geomean|||0.500|||2.000|");
    }

    #[test]
    fn without_hakmem_or_a_choice_of_peers_there_is_none() {
        assert!(table(&summary(&[("a", 1, 1), ("b", 1, 1)])).is_none());
        assert!(table(&summary(&[("hakmem", 1, 1)])).is_none());
        let names = ["hakmem", "a", "b"].map(str::to_owned);
        assert!(table(&Summary::new(&[], &names, "a", &[], &[])).is_none());
    }

    #[test]
    fn a_workload_that_did_not_run_is_dashes() {
        let summary = Summary::new(
            &["w".to_owned()],
            &["hakmem", "a", "b"].map(str::to_owned),
            "a",
            &[],
            &[],
        );
        let table = table(&summary).expect("two peers");
        let line = table.lines().nth(2).expect("a row").replace(' ', "");
        assert_eq!(line, "|w|-|-|-|-|-|-|");
    }
}
