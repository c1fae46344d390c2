//! What is said of a profile: the totals, and what is live, and what was allocated, by the code
//! that did it.

use crate::lines::{cut, length};
use crate::rows;
use crate::summary::{bytes, grouped};
use crate::terminal::Terminal;
use hakmem_pprof::tool::profile::{Profile, Sample};
use hakmem_pprof::tool::raw::Raw;
use std::collections::HashMap;
use std::path::PathBuf;

/// Sites that are listed, …
const SITES: usize = 10;
/// … functions of each, …
const CALLERS: usize = 5;
/// … and characters of a name: those of templates and generic functions have no end.
const NAME: usize = 60;
/// Columns of a row's name.
const NAMES: usize = 11;
/// Between a function and its caller.
const CALLED_BY: &str = " < ";

/// Lines for people. The names of files are not broken: they can be copied. `earlier`: samples that
/// were taken before.
pub fn of(
    profile: &Profile,
    raw: &Raw,
    earlier: u64,
    files: &[PathBuf],
    terminal: Option<Terminal>,
) -> String {
    let sum = |f: fn(&Sample) -> f64| profile.samples.iter().map(f).sum::<f64>();
    let (all, all_bytes) = (sum(|s| s.all), sum(|s| s.all_bytes));
    let (live, live_bytes) = (sum(|s| s.live), sum(|s| s.live_bytes));
    let taken: u64 = raw.samples.iter().map(|s| s.all).sum();
    let when = if raw.event == "exit" {
        "at exit"
    } else {
        "while running"
    };
    let mut text = format!("hakmem: heap profile of process {}, {when}\n", raw.pid);
    let mut row = |name, value: String| text += &rows::row(name, NAMES, &value, terminal);
    // What was allocated fast was sampled at longer ones.
    let intervals = raw.samples.iter().map(|s| s.interval);
    let longest = match intervals.max().unwrap_or(0) {
        longest if longest > profile.interval => format!(" to {}", bytes(longest)),
        _ => String::new(),
    };
    let interval = bytes(profile.interval);
    let taken = grouped(taken);
    row(
        "samples",
        format!("{taken}, one in {interval}{longest}; the figures are estimates"),
    );
    if earlier > 0 {
        let earlier = grouped(earlier);
        row("", format!("{earlier} of them were taken before this run"));
    }
    if let Some(worth) = worth(raw).filter(|_| !longest.is_empty()) {
        let worth = grouped(worth.round() as u64);
        row("", format!("as exact as {worth} samples at one interval"));
    }
    let blocks = |all: f64, n: f64| {
        let (size, n) = (bytes(all.round() as u64), grouped(n.round() as u64));
        format!("{size} in {n} blocks")
    };
    row("allocated", blocks(all_bytes, all));
    row("live", blocks(live_bytes, live));
    if raw.lost > 0 {
        let lost = grouped(raw.lost);
        row("lost", format!("{lost} samples, for want of memory"));
    }
    let by_live = |s: &Sample| (s.live_bytes, s.live);
    text += &table("live bytes", profile, by_live, terminal);
    text += &table("allocated", profile, |s| (s.all_bytes, s.all), terminal);
    text.push('\n');
    for file in files {
        text += &format!("  wrote {}\n", file.display());
    }
    text
}

/// How many samples that count alike would give the bytes allocated with the same error. A block is
/// a sample with probability 1 / weight: the less likely it was, the more it adds to the variance.
/// None: the profile has no error.
fn worth(raw: &Raw) -> Option<f64> {
    let (mut sum, mut variance) = (0.0, 0.0);
    for sample in &raw.samples {
        let (n, weight) = (sample.all as f64, sample.weight());
        let each = sample.size as f64 * weight;
        sum += n * each;
        variance += n * each * each * (1.0 - 1.0 / weight);
    }
    let worth = sum * sum / variance;
    worth.is_finite().then_some(worth)
}

/// The sites with most bytes; nothing if there are none.
fn table(
    head: &str,
    profile: &Profile,
    of: fn(&Sample) -> (f64, f64),
    terminal: Option<Terminal>,
) -> String {
    let mut sites: Vec<(Vec<String>, Site)> = sites(profile, of).into_iter().collect();
    sites.sort_by(|a, b| b.1.bytes.total_cmp(&a.1.bytes).then(a.0.cmp(&b.0)));
    if sites.is_empty() {
        return String::new();
    }
    let whole: f64 = sites.iter().map(|(_, site)| site.bytes).sum();
    let mut text = format!("\n  {head:>10}       %     blocks  by\n");
    for (stack, site) in sites.iter().take(SITES) {
        let share = 100.0 * site.bytes / whole;
        let size = bytes(site.bytes.round() as u64);
        let count = grouped(site.blocks.round() as u64);
        let figures = format!("{size:>10}  {share:5.1} % {count:>10}  ");
        let columns = length(&figures);
        text += &match terminal {
            None => rows::row(&figures, columns, &stack.join(CALLED_BY), None),
            Some(terminal) => {
                rows::broken(&figures, columns, terminal, |width| lines(stack, width))
            }
        };
    }
    if let Some(more) = sites.len().checked_sub(SITES).filter(|&n| n > 0) {
        text += &format!("  and {} places more\n", grouped(more as u64));
    }
    text
}

/// The functions in lines of at most `width` characters; a name that is longer than a line is cut.
fn lines(stack: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in stack {
        let caller = if lines.is_empty() { "" } else { CALLED_BY };
        match lines.last_mut() {
            Some(line) if length(line) + length(caller) + length(name) <= width => {
                *line += caller;
                *line += name;
            }
            _ => {
                let caller = caller.trim_start();
                let room = width.saturating_sub(length(caller));
                lines.push(format!("{caller}{}", cut(name, room)));
            }
        }
    }
    lines
}

#[derive(Default)]
struct Site {
    bytes: f64,
    blocks: f64,
}

/// Bytes and blocks by the nearest functions.
fn sites(profile: &Profile, of: fn(&Sample) -> (f64, f64)) -> HashMap<Vec<String>, Site> {
    let mut sites = HashMap::<Vec<String>, Site>::new();
    for sample in profile.samples.iter().filter(|&s| of(s).1 > 0.0) {
        let names = sample
            .stack
            .iter()
            .flat_map(|place| &place.frames)
            .map(|f| cut(&f.function, NAME + 1));
        let site = sites.entry(names.take(CALLERS).collect()).or_default();
        let (bytes, blocks) = of(sample);
        site.bytes += bytes;
        site.blocks += blocks;
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_share_lines_and_are_cut_to_one() {
        let stack = ["push", "a_long_name_of_a_function", "main", "start"].map(str::to_owned);
        let names = lines(&stack, 14);
        assert_eq!(names, ["push", "< a_long_name…", "< main < start"]);
        assert_eq!(lines(&stack, 100), [stack.join(CALLED_BY)]);
    }
}
