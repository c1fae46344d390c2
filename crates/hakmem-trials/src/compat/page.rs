//! The page of results.

use super::results::{Results, Run};
use super::table::{self, Program};
use super::verdict::{Verdict, expected, judge};
use hakmem_bench::probes::library::{HAKMEM, SYSTEM};
use hakmem_bench::report::markdown;
use hakmem_bench::stats::median;
use std::fmt::Write;

const HEAD: &str = "\
# Compatibility

Real programs with an allocator preloaded, each beside the same program without one and with other
allocators, so that what is the allocator's fault and what no preloaded allocator survives stay
apart. Written by `ci/compat`, from the runs in [compatibility.tsv](compatibility.tsv).

`ci/compat` installs what is missing of the programs and runs everything again; `--rounds N` sets
the number of runs, `--only NAME,…` takes some programs and leaves the results of the others,
`--resume` makes only runs that are not on record for this build.
";

const HOW: &str = "\
## How
Every run starts in an empty folder as a user without rights, with an environment of its own. Only
the programs named meet the allocator, not what drives or filters them. Servers listen on sockets in
that folder or on a free local port. After the run, or at its deadline, every process that came from
it is ended.

- **verdict**: *same* if the output has the same SHA-256 and each program the same exit status as on
  the system's allocator. Else *crash* (a signal), *hang* (the deadline), *exit status*, *wrong
  output*; *not served* if the library was not there.
- **time**: from start to end of the whole run, drivers included; the median. Other work may have
  been on the machine: it is no benchmark. **processor**: of the programs alone.
- **peak RSS**: of the largest single process, by the kernel's account of those that were waited for
  and by looking at all others every 25 ms; the median. What is below some 4 MiB is that of the
  process that starts them.
- **maps**: the most that one process had at any look; a dash if none lived long enough to be seen.
- **served**: under hakmem every program must have reported that it was loaded, and blocks handed
  out. Processes that end by a signal or `_exit` report no blocks. Under the others, the library
  must be mapped in a process wherever one was seen.
";

/// The page, and the failures that are hakmem's alone.
pub fn page(results: &Results, sides: &[String]) -> (String, Vec<String>) {
    let mut text = HEAD.to_owned();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{}\n", origin(results));
    let programs: Vec<&Program> = table::ALL
        .iter()
        .filter(|p| results.runs.iter().any(|r| r.program == p.name))
        .collect();
    let judged = programs.iter().map(|p| Judged::new(results, sides, p));
    let judged: Vec<Judged> = judged.collect();
    let header: Vec<&str> = std::iter::once("program")
        .chain(sides.iter().map(String::as_str))
        .collect();
    let rows: Vec<Vec<String>> = judged.iter().map(|j| j.row(sides)).collect();
    text.push_str(&markdown(&header, &rows));
    let alone: Vec<String> = judged.iter().flat_map(|j| j.alone(sides)).collect();
    let failures = judged.iter().flat_map(|j| j.failures(sides));
    text.push_str(&failed(&failures.collect::<Vec<_>>(), alone.len()));
    if !results.missing.is_empty() {
        text.push_str("\n## Not run\n");
        for (name, why) in &results.missing {
            let _ = writeln!(text, "- **{name}**: {why}");
        }
    }
    text.push_str("\n## Figures\n");
    text.push_str(&figures(results, sides, &programs));
    let _ = writeln!(
        text,
        "\n{HOW}\n## The programs\n{}",
        described(results, &programs)
    );
    (text, alone)
}

/// One program on all sides.
struct Judged<'a> {
    program: &'a Program,
    /// By side; `Err` says why nothing can be compared.
    verdicts: Result<Vec<Verdict>, String>,
}

impl<'a> Judged<'a> {
    fn new(results: &Results, sides: &[String], program: &'a Program) -> Self {
        let of = |base| {
            let sides = sides.iter();
            let verdicts = sides.map(|side| judge(base, results.of(program.name, side)));
            verdicts.collect()
        };
        Self {
            program,
            verdicts: expected(results, program.name).map(of),
        }
    }

    /// The row of the first table.
    fn row(&self, sides: &[String]) -> Vec<String> {
        let cells = match &self.verdicts {
            Ok(verdicts) => verdicts.iter().map(cell).collect(),
            Err(_) => vec!["?".to_owned(); sides.len()],
        };
        [vec![self.program.name.to_owned()], cells].concat()
    }

    /// What went wrong, and whether on hakmem.
    fn faults<'b>(&'b self, sides: &'b [String]) -> impl Iterator<Item = (bool, String)> + 'b {
        let verdicts = self.verdicts.iter().flatten();
        let name = self.program.name;
        sides.iter().zip(verdicts).flat_map(move |(side, verdict)| {
            verdict.faults.iter().map(move |(fault, count, account)| {
                let line = format!(
                    "**{name}** on {side}: {} in {count} of {} ({account}).",
                    fault.name(),
                    verdict.runs
                );
                (side == HAKMEM, line)
            })
        })
    }

    /// All failures, with what is known of them.
    fn failures(&self, sides: &[String]) -> Vec<String> {
        if let Err(why) = &self.verdicts {
            let name = self.program.name;
            return vec![format!("**{name}**: {why}. Nothing can be compared.")];
        }
        let known = self
            .program
            .known
            .map_or(String::new(), |k| format!(" {k}"));
        self.faults(sides).map(|(_, line)| line + &known).collect()
    }

    /// Those that no other side has, and that nothing can be compared.
    fn alone(&self, sides: &[String]) -> Vec<String> {
        if let Err(why) = &self.verdicts {
            return vec![format!("{}: {why}", self.program.name)];
        }
        if self.faults(sides).any(|(ours, _)| !ours) {
            return Vec::new();
        }
        let lines = self.faults(sides).map(|(_, line)| line.replace("**", ""));
        lines.collect()
    }
}

/// The section of failures; `alone` of them are hakmem's.
fn failed(failures: &[String], alone: usize) -> String {
    let mut text = String::from("\n## Failures\n");
    if failures.is_empty() {
        text.push_str("None.\n");
    }
    for failure in failures {
        let _ = writeln!(text, "- {failure}");
    }
    let said = match alone {
        0 => "No failure is hakmem's alone.".to_owned(),
        n => format!("{n} of these are hakmem's alone, or cannot be compared."),
    };
    let _ = writeln!(text, "\n{said}");
    text
}

/// The table of figures.
fn figures(results: &Results, sides: &[String], programs: &[&Program]) -> String {
    let columns = [
        "program",
        "allocator",
        "runs",
        "time, s",
        "processor, s",
        "peak RSS, MiB",
        "maps",
        "served",
    ];
    let of = |p: &&Program| {
        let name = p.name;
        sides
            .iter()
            .filter_map(move |side| figure_row(results, name, side))
    };
    markdown(&columns, &programs.iter().flat_map(of).collect::<Vec<_>>())
}

fn cell(verdict: &Verdict) -> String {
    match verdict.runs {
        0 => "–".to_owned(),
        n if verdict.is_good() => format!("same, {n} of {n}"),
        n => {
            let words: Vec<String> = verdict
                .faults
                .iter()
                .map(|(f, count, _)| format!("**{}** {count} of {n}", f.name()))
                .collect();
            words.join(", ")
        }
    }
}

fn figure_row(results: &Results, program: &str, side: &str) -> Option<Vec<String>> {
    let runs: Vec<&Run> = results.of(program, side).collect();
    let middle = |of: fn(&Run) -> f64| median(&runs.iter().map(|r| of(r)).collect::<Vec<_>>());
    let maps = runs.iter().map(|r| r.maps).max()?;
    let served = runs.iter().filter_map(|r| r.served.as_ref()).next_back();
    let served = served.map_or_else(
        || {
            if runs.iter().any(|r| r.mapped == Some(true)) {
                "mapped".to_owned()
            } else {
                String::new()
            }
        },
        |s| {
            let foreign = if s.foreign_frees > 0 {
                format!(", {} foreign frees", s.foreign_frees)
            } else {
                String::new()
            };
            format!(
                "{} blocks in {} of {} processes{foreign}",
                s.allocations,
                s.reported,
                s.loaded.max(s.reported)
            )
        },
    );
    Some(vec![
        if side == SYSTEM {
            program.to_owned()
        } else {
            String::new()
        },
        side.to_owned(),
        runs.len().to_string(),
        format!("{:.2}", middle(|r| r.seconds)?),
        format!("{:.2}", middle(|r| r.cpu_seconds)?),
        format!("{:.1}", middle(|r| r.peak_rss_kib as f64)? / 1024.0),
        if maps == 0 {
            "–".to_owned()
        } else {
            maps.to_string()
        },
        served,
    ])
}

fn origin(results: &Results) -> String {
    let libraries: Vec<String> = results
        .libraries
        .iter()
        .map(|(side, what)| format!("{side} ({what})"))
        .collect();
    let counts = results.runs.iter().map(|r| r.round + 1).max().unwrap_or(0);
    let place = results.machine.as_ref().map_or(String::new(), |m| {
        format!(
            " {} cores of {}, {}, load {} at the start.",
            m.cores, m.cpu, m.kernel, m.load
        )
    });
    let time = jiff::Timestamp::from_second(results.unix_time as i64).unwrap_or_default();
    let builds: std::collections::BTreeSet<_> = results
        .runs
        .iter()
        .filter(|r| r.side == HAKMEM)
        .map(|r| &r.library)
        .collect();
    let builds = match builds.len() {
        0 | 1 => String::new(),
        n => format!(
            " Runs of {n} builds of hakmem are on record: `--resume` renews those of the older \
             ones."
        ),
    };
    format!(
        "Up to {counts} runs of each, the newest on {}.{place}{builds} Allocators: {}.",
        time.strftime("%Y-%m-%d"),
        libraries.join(", ")
    )
}

fn described(results: &Results, programs: &[&Program]) -> String {
    let mut text = String::new();
    for program in programs {
        let versions = results.versions.get(program.name);
        let versions: Vec<String> = versions
            .into_iter()
            .flatten()
            .map(|(p, v)| format!("{p} {v}"))
            .collect();
        let _ = writeln!(
            text,
            "- **{}** ({}). {} Compared: {}",
            program.name,
            versions.join(", "),
            program.what,
            program.compared
        );
    }
    text
}
