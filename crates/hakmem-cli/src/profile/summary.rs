//! What is said of a profile: the totals, and what is live, and what was allocated, by the code
//! that did it.

use crate::summary::{bytes, grouped};
use hakmem_pprof::tool::profile::{Profile, Sample};
use hakmem_pprof::tool::raw::Raw;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Sites that are listed, …
const SITES: usize = 10;
/// … functions of each, …
const CALLERS: usize = 5;
/// … and characters of a name: those of templates and generic functions have no end.
const NAME: usize = 60;

/// Lines for people.
pub fn of(profile: &Profile, raw: &Raw, files: &[PathBuf]) -> String {
    let mut text = String::new();
    let sum = |f: fn(&Sample) -> f64| profile.samples.iter().map(f).sum::<f64>();
    let (all, all_bytes) = (sum(|s| s.all), sum(|s| s.all_bytes));
    let (live, live_bytes) = (sum(|s| s.live), sum(|s| s.live_bytes));
    let taken: u64 = raw.samples.iter().map(|s| s.all).sum();
    let mut line =
        |parts: std::fmt::Arguments<'_>| text.write_fmt(parts).expect("writing to a String");
    let when = if raw.event == "exit" {
        "at exit"
    } else {
        "while running"
    };
    line(format_args!(
        "hakmem: heap profile of process {}, {when}\n",
        raw.pid
    ));
    // What was allocated fast was sampled at longer ones.
    let intervals = raw.samples.iter().map(|s| s.interval);
    let longest = match intervals.max().unwrap_or(0) {
        longest if longest > profile.interval => format!(" to {}", bytes(longest)),
        _ => String::new(),
    };
    let interval = bytes(profile.interval);
    line(format_args!(
        "  samples    {}, one in {interval}{longest}; the figures are estimates\n",
        grouped(taken)
    ));
    if let Some(worth) = worth(raw).filter(|_| !longest.is_empty()) {
        line(format_args!(
            "             as exact as {} samples at one interval\n",
            grouped(worth.round() as u64)
        ));
    }
    let blocks = |n: f64| grouped(n.round() as u64);
    line(format_args!(
        "  allocated  {} in {} blocks\n",
        bytes(all_bytes.round() as u64),
        blocks(all)
    ));
    line(format_args!(
        "  live       {} in {} blocks\n",
        bytes(live_bytes.round() as u64),
        blocks(live)
    ));
    if raw.lost > 0 {
        line(format_args!(
            "  lost       {} samples, for want of memory\n",
            grouped(raw.lost)
        ));
    }
    text += &table("live bytes", profile, |s| (s.live_bytes, s.live));
    text += &table("allocated", profile, |s| (s.all_bytes, s.all));
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
fn table(head: &str, profile: &Profile, of: fn(&Sample) -> (f64, f64)) -> String {
    let mut sites: Vec<(String, Site)> = sites(profile, of).into_iter().collect();
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
        text += &format!("  {size:>10}  {share:5.1} % {count:>10}  {stack}\n");
    }
    if let Some(more) = sites.len().checked_sub(SITES).filter(|&n| n > 0) {
        text += &format!("  and {} places more\n", grouped(more as u64));
    }
    text
}

#[derive(Default)]
struct Site {
    bytes: f64,
    blocks: f64,
}

/// Bytes and blocks by the nearest functions.
fn sites(profile: &Profile, of: fn(&Sample) -> (f64, f64)) -> HashMap<String, Site> {
    let mut sites = HashMap::<String, Site>::new();
    for sample in profile.samples.iter().filter(|&s| of(s).1 > 0.0) {
        let names = sample
            .stack
            .iter()
            .flat_map(|place| &place.frames)
            .map(|f| cut(&f.function));
        let nearest: Vec<_> = names.take(CALLERS).collect();
        let site = sites.entry(nearest.join(" < ")).or_default();
        let (bytes, blocks) = of(sample);
        site.bytes += bytes;
        site.blocks += blocks;
    }
    sites
}

/// A name's beginning.
fn cut(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}
