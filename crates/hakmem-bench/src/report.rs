//! Medians, ratios, and the table of a comparison.

use crate::sample::{Sample, Trace};
use crate::stats::{geomean, median, spread};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The figures of a comparison, ready to print.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// The allocator that ratios are relative to.
    pub base: String,
    /// One row per workload and allocator.
    pub rows: Vec<Row>,
    /// One line per allocator.
    pub overall: Vec<Overall>,
}

/// One workload on one allocator. Figures are missing when no run gave them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The workload, or the program.
    pub workload: String,
    /// The allocator, or the name given to the library.
    pub allocator: String,
    /// Timed runs.
    pub samples: usize,
    /// Median time.
    pub nanos: Option<f64>,
    /// Median time per operation.
    pub nanos_per_op: Option<f64>,
    /// Median absolute deviation of the time, relative to the median.
    pub time_spread: Option<f64>,
    /// Median time relative to that of the base.
    pub time_ratio: Option<f64>,
    /// Median peak resident KiB.
    pub max_rss_kib: Option<f64>,
    /// The same relative to the base.
    pub rss_ratio: Option<f64>,
    /// Median page faults, minor and major.
    pub faults: Option<f64>,
    /// System calls about memory in the traced run.
    pub memory_calls: Option<u64>,
    /// All system calls in the traced run.
    pub all_calls: Option<u64>,
}

/// One allocator over all workloads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Overall {
    /// The allocator, or the name given to the library.
    pub allocator: String,
    /// Workloads with figures for it and for the base.
    pub workloads: usize,
    /// Geometric mean of the time ratios.
    pub time_ratio: Option<f64>,
    /// Geometric mean of the ratios of peak resident memory.
    pub rss_ratio: Option<f64>,
    /// The workload with the highest time ratio, and that ratio.
    pub slowest: Option<(String, f64)>,
}

impl Summary {
    /// Sums up; workloads and allocators in the order given.
    pub fn new(
        workloads: &[String],
        allocators: &[String],
        base: &str,
        samples: &[Sample],
        traces: &[Trace],
    ) -> Self {
        let mut rows = Vec::new();
        for workload in workloads {
            let first = rows.len();
            rows.extend(
                allocators
                    .iter()
                    .map(|allocator| Row::new(workload, allocator, samples, traces)),
            );
            let base = rows[first..]
                .iter()
                .find(|r| r.allocator == base)
                .map(|r| (r.nanos, r.max_rss_kib));
            let (nanos, rss) = base.unwrap_or_default();
            for row in &mut rows[first..] {
                row.time_ratio = ratio(row.nanos, nanos);
                row.rss_ratio = ratio(row.max_rss_kib, rss);
            }
        }
        let overall = allocators
            .iter()
            .map(|allocator| Overall::new(allocator, &rows))
            .collect();
        Self {
            base: base.to_owned(),
            rows,
            overall,
        }
    }

    /// The table of rows, then that of the allocators, both in Markdown. Empty without rows.
    pub fn table(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let base = format!("× {}", self.base);
        let header = [
            "workload",
            "allocator",
            "time ms",
            "±",
            &base,
            "peak RSS MiB",
            &base,
            "faults",
            "memory calls",
            "all calls",
        ];
        let rows: Vec<Vec<String>> = self.rows.iter().map(Row::cells).collect();
        let mut text = markdown(&header, &rows);
        text.push('\n');
        text.push_str(&self.overall_table());
        text
    }

    /// The table of the allocators alone.
    pub fn overall_table(&self) -> String {
        let base = format!("× {}", self.base);
        let header = [
            "geomean",
            "workloads",
            &format!("time {base}"),
            &format!("peak RSS {base}"),
            "slowest workload",
        ];
        let rows: Vec<Vec<String>> = self.overall.iter().map(Overall::cells).collect();
        markdown(&header, &rows)
    }
}

impl Row {
    fn new(workload: &str, allocator: &str, samples: &[Sample], traces: &[Trace]) -> Self {
        let mine: Vec<&Sample> = samples
            .iter()
            .filter(|s| s.workload == workload && s.allocator == allocator)
            .collect();
        let values = |of: fn(&Sample) -> f64| mine.iter().map(|s| of(s)).collect::<Vec<f64>>();
        let times = values(|s| s.nanos as f64);
        let trace = traces
            .iter()
            .find(|t| t.workload == workload && t.allocator == allocator);
        Self {
            workload: workload.to_owned(),
            allocator: allocator.to_owned(),
            samples: mine.len(),
            nanos: median(&times),
            nanos_per_op: median(&values(|s| s.nanos as f64 / s.ops as f64)),
            time_spread: spread(&times),
            time_ratio: None,
            max_rss_kib: median(&values(|s| s.max_rss_kib as f64)),
            rss_ratio: None,
            faults: median(&values(|s| (s.minor_faults + s.major_faults) as f64)),
            memory_calls: trace.map(|t| t.calls.memory()),
            all_calls: trace.map(|t| t.calls.total),
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.workload.clone(),
            self.allocator.clone(),
            cell(self.nanos.map(|n| format!("{:.1}", n / 1e6))),
            cell(self.time_spread.map(|s| format!("{:.1} %", s * 100.0))),
            cell(self.time_ratio.map(|r| format!("{r:.2}"))),
            cell(self.max_rss_kib.map(|k| format!("{:.1}", k / 1024.0))),
            cell(self.rss_ratio.map(|r| format!("{r:.2}"))),
            cell(self.faults.map(|f| format!("{f:.0}"))),
            cell(self.memory_calls.map(|n| n.to_string())),
            cell(self.all_calls.map(|n| n.to_string())),
        ]
    }
}

impl Overall {
    fn new(allocator: &str, rows: &[Row]) -> Self {
        let mine = || rows.iter().filter(|r| r.allocator == allocator);
        let times: Vec<f64> = mine().filter_map(|r| r.time_ratio).collect();
        let sizes: Vec<f64> = mine().filter_map(|r| r.rss_ratio).collect();
        let slowest = mine()
            .filter_map(|r| Some((r.workload.clone(), r.time_ratio?)))
            .max_by(|(_, a), (_, b)| a.total_cmp(b));
        Self {
            allocator: allocator.to_owned(),
            workloads: times.len(),
            time_ratio: geomean(&times),
            rss_ratio: geomean(&sizes),
            slowest,
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.allocator.clone(),
            self.workloads.to_string(),
            cell(self.time_ratio.map(|r| format!("{r:.3}"))),
            cell(self.rss_ratio.map(|r| format!("{r:.3}"))),
            cell(self.slowest.as_ref().map(|(w, r)| format!("{w} {r:.2}"))),
        ]
    }
}

fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    Some(value? / base?).filter(|r| r.is_finite() && *r > 0.0)
}

/// A figure, or a dash where there is none.
pub fn cell(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// A table in Markdown that is aligned in plain text, too; the first two columns to the left,
/// figures to the right.
pub fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|r| r[column].chars().count());
        cells
            .chain([header[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::from("|");
        for (column, cell) in cells.enumerate() {
            let width = widths[column];
            // Writing to a string cannot fail.
            let _ = if column < 2 {
                write!(text, " {cell:width$} |")
            } else {
                write!(text, " {cell:>width$} |")
            };
        }
        text.push('\n');
        text
    };
    let mut text = line(&mut header.iter().copied());
    text.push('|');
    for (column, width) in widths.iter().enumerate() {
        let dashes = "-".repeat(width + 1);
        text.push_str(&if column < 2 {
            format!("{dashes}-|")
        } else {
            format!("{dashes}:|")
        });
    }
    text.push('\n');
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(workload: &str, allocator: &str, nanos: u64, max_rss_kib: u64) -> Sample {
        Sample {
            ops: 10,
            minor_faults: 5,
            major_faults: 1,
            ..Sample::of(workload, allocator, nanos, max_rss_kib)
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn ratios_are_medians_over_the_median_of_the_base() {
        let samples = [
            sample("w", "a", 100, 50),
            sample("w", "a", 300, 50),
            sample("w", "a", 200, 50),
            sample("w", "b", 400, 100),
            sample("v", "a", 800, 10),
            sample("v", "b", 400, 10),
        ];
        let s = Summary::new(&names(&["w", "v"]), &names(&["a", "b"]), "b", &samples, &[]);
        let row = &s.rows[0];
        assert_eq!(
            (row.nanos, row.time_ratio, row.rss_ratio),
            (Some(200.0), Some(0.5), Some(0.5))
        );
        assert_eq!(
            (row.samples, row.nanos_per_op, row.faults),
            (3, Some(20.0), Some(6.0))
        );
        let a = &s.overall[0];
        assert!(
            (a.time_ratio.expect("both workloads ran") - 1.0).abs() < 1e-12,
            "0.5 and 2 cancel out"
        );
        assert_eq!(a.slowest, Some(("v".to_owned(), 2.0)));
    }

    #[test]
    fn what_did_not_run_is_a_dash_and_counts_nowhere() {
        let samples = [sample("w", "b", 400, 100)];
        let s = Summary::new(&names(&["w"]), &names(&["a", "b"]), "b", &samples, &[]);
        assert_eq!((s.rows[0].nanos, s.rows[0].time_ratio), (None, None));
        assert_eq!((s.overall[0].workloads, s.overall[0].time_ratio), (0, None));
        let line = s
            .table()
            .lines()
            .nth(2)
            .expect("a first row")
            .replace(' ', "");
        assert_eq!(line, "|w|a|-|-|-|-|-|-|-|-|");
    }

    #[test]
    fn lines_of_a_table_have_one_length() {
        let table = markdown(
            &["a", "b", "×"],
            &[vec!["1".into(), "long cell".into(), "3".into()]],
        );
        let lengths: Vec<usize> = table.lines().map(|l| l.chars().count()).collect();
        assert!(lengths.iter().all(|l| *l == lengths[0]), "{table}");
    }
}
