//! What pairs of runs say: ratios of neighbours in time, their median, and whether it can be told
//! from 1.

pub mod interval;

use crate::report::{cell, markdown};
use crate::sample::Sample;
use crate::stats::{geomean, median};
use interval::Estimate;
use serde::{Deserialize, Serialize};

/// The name of the line over all workloads.
pub const ALL: &str = "all";

/// The first side relative to the second, in one workload or in the mean of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The workload, or `all`.
    pub workload: String,
    /// Pairs of runs.
    pub pairs: usize,
    /// Median time of the second side, in nanoseconds; absent in the mean of all.
    pub nanos: Option<f64>,
    /// The ratio of times; absent with too few pairs.
    pub time: Option<Estimate>,
    /// Median peak resident KiB of the second side; absent in the mean of all.
    pub max_rss_kib: Option<f64>,
    /// The ratio of peaks.
    pub memory: Option<Estimate>,
}

/// A side as a record has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideRecord {
    /// The name that its samples have.
    pub name: String,
    /// The options, `NAME=VALUE`.
    pub options: Vec<String>,
    /// The program.
    pub program: String,
}

/// The part of a record that other comparisons do not have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ab {
    /// Side A.
    pub a: SideRecord,
    /// Side B, which ratios are relative to.
    pub b: SideRecord,
    /// What came of it.
    pub comparisons: Vec<Comparison>,
}

/// A pair of runs: the first side's, the second side's.
pub type Pair = (Sample, Sample);

fn time(sample: &Sample) -> f64 {
    sample.nanos as f64
}

fn memory(sample: &Sample) -> f64 {
    sample.max_rss_kib as f64
}

fn ratios(pairs: &[&Pair], of: fn(&Sample) -> f64) -> Vec<f64> {
    let ratio = |pair: &&Pair| of(&pair.0) / of(&pair.1);
    pairs.iter().map(ratio).collect()
}

/// A comparison for each of `workloads`, and one over all if there are several.
pub fn compare(workloads: &[String], pairs: &[Pair]) -> Vec<Comparison> {
    let of = |workload: &str| -> Vec<&Pair> {
        let mine = pairs.iter().filter(|(a, _)| a.workload == workload);
        mine.collect()
    };
    let one = |workload: &String| {
        let mine = of(workload);
        let second = |of: fn(&Sample) -> f64| {
            let values: Vec<f64> = mine.iter().map(|(_, b)| of(b)).collect();
            median(&values)
        };
        Comparison {
            workload: workload.clone(),
            pairs: mine.len(),
            nanos: second(time),
            time: Estimate::of(&ratios(&mine, time)),
            max_rss_kib: second(memory),
            memory: Estimate::of(&ratios(&mine, memory)),
        }
    };
    let mut all: Vec<Comparison> = workloads.iter().map(one).collect();
    if workloads.len() > 1 {
        let rounds = whole_rounds(workloads, pairs);
        let means = |figure: fn(&Sample) -> f64| -> Vec<f64> {
            let mean = |round: &Vec<&Pair>| geomean(&ratios(round, figure));
            rounds.iter().filter_map(mean).collect()
        };
        all.push(Comparison {
            workload: ALL.to_owned(),
            pairs: rounds.len(),
            nanos: None,
            time: Estimate::of(&means(time)),
            max_rss_kib: None,
            memory: Estimate::of(&means(memory)),
        });
    }
    all
}

/// The pairs by round, of the rounds in which every workload ran on both sides.
fn whole_rounds<'a>(workloads: &[String], pairs: &'a [Pair]) -> Vec<Vec<&'a Pair>> {
    let mut rounds: Vec<u32> = pairs.iter().map(|(a, _)| a.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    let of = |round: u32| -> Vec<&Pair> { pairs.iter().filter(|p| p.0.round == round).collect() };
    let whole = rounds.into_iter().map(of);
    whole.filter(|r| r.len() == workloads.len()).collect()
}

/// What an interval says in words; nothing if it holds 1.
fn verdict(estimate: Option<Estimate>, less: &str, more: &str) -> String {
    match estimate {
        Some(e) if e.excludes(1.0) && e.median < 1.0 => less.to_owned(),
        Some(e) if e.excludes(1.0) => more.to_owned(),
        _ => String::new(),
    }
}

/// The table, in Markdown.
pub fn table(comparisons: &[Comparison]) -> String {
    let header = [
        "workload",
        "pairs",
        "B ms",
        "time A/B",
        "95 %",
        "",
        "B MiB",
        "peak RSS A/B",
        "95 %",
        "",
    ];
    let ratio = |e: Option<Estimate>| cell(e.map(|e| format!("{:.3}", e.median)));
    let interval = |e: Option<Estimate>| cell(e.map(|e| format!("{:.3}–{:.3}", e.low, e.high)));
    let row = |c: &Comparison| {
        vec![
            c.workload.clone(),
            c.pairs.to_string(),
            cell(c.nanos.map(|n| format!("{:.1}", n / 1e6))),
            ratio(c.time),
            interval(c.time),
            verdict(c.time, "faster", "slower"),
            cell(c.max_rss_kib.map(|k| format!("{:.1}", k / 1024.0))),
            ratio(c.memory),
            interval(c.memory),
            verdict(c.memory, "less", "more"),
        ]
    };
    markdown(&header, &comparisons.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(workload: &str, round: u32, nanos: u64, max_rss_kib: u64) -> Sample {
        Sample {
            round,
            ..Sample::of(workload, "", nanos, max_rss_kib)
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    /// The machine slows down from round to round, and A takes nine tenths of B's time in each:
    /// medians of the sides alone overlap wholly.
    #[test]
    fn a_drift_that_meets_both_sides_hides_nothing() {
        let pairs: Vec<Pair> = (0..9)
            .map(|round| {
                let slow = 1000 * 2_u64.pow(round);
                (
                    sample("w", round, slow * 9 / 10, 50),
                    sample("w", round, slow, 50),
                )
            })
            .collect();
        let [w] = &compare(&names(&["w"]), &pairs)[..] else {
            panic!("one workload has no mean");
        };
        let time = w.time.expect("nine pairs");
        assert_eq!(
            (w.pairs, time.median, time.low, time.high),
            (9, 0.9, 0.9, 0.9)
        );
        let text = table(std::slice::from_ref(w));
        assert!(
            text.contains("faster") && !text.contains("less") && !text.contains("more"),
            "{text}"
        );
    }

    #[test]
    fn an_interval_that_holds_1_is_no_verdict() {
        let pairs: Vec<Pair> = (0..9)
            .map(|round| {
                (
                    sample(
                        "w",
                        round,
                        90 + 5 * u64::from(round),
                        100 + 10 * u64::from(round),
                    ),
                    sample("w", round, 100, 50),
                )
            })
            .collect();
        let text = table(&compare(&names(&["w"]), &pairs));
        assert!(
            !text.contains("faster") && !text.contains("slower"),
            "{text}"
        );
        assert!(text.contains("more"), "{text}");
    }

    #[test]
    fn the_mean_is_over_rounds_in_which_everything_ran() {
        let mut pairs = Vec::new();
        for round in 0..7 {
            pairs.push((sample("w", round, 200, 10), sample("w", round, 100, 10)));
            if round > 0 {
                pairs.push((sample("v", round, 50, 10), sample("v", round, 100, 10)));
            }
        }
        let all = compare(&names(&["w", "v"]), &pairs);
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].pairs, all[1].pairs, all[2].pairs), (7, 6, 6));
        let mean = all[2].time.expect("six rounds");
        assert!((mean.median - 1.0).abs() < 1e-12, "2 and 1/2 cancel out");
        assert_eq!(all[2].workload, ALL);
    }

    #[test]
    fn too_few_pairs_have_no_interval() {
        let pairs = [(sample("w", 0, 1, 1), sample("w", 0, 2, 1))];
        let one = &compare(&names(&["w"]), &pairs)[0];
        assert_eq!((one.pairs, one.time, one.nanos), (1, None, Some(2.0)));
    }
}
