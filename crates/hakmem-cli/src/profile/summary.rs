//! What is said of a profile: the totals, and what is live by the code that allocated it.

use super::raw::Raw;
use super::{Profile, Sample};
use crate::summary::{bytes, grouped};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Sites that are listed, and functions of each.
const SITES: usize = 10;
const CALLERS: usize = 5;

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
    let interval = bytes(profile.interval);
    line(format_args!(
        "  samples    {}, one in {interval}; the figures are estimates\n",
        grouped(taken)
    ));
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
    let mut sites: Vec<(String, Site)> = sites(profile).into_iter().collect();
    sites.sort_by(|a, b| b.1.bytes.total_cmp(&a.1.bytes).then(a.0.cmp(&b.0)));
    if !sites.is_empty() {
        line(format_args!(
            "\n  live bytes       %  blocks  allocated by\n"
        ));
    }
    for (stack, site) in sites.iter().take(SITES) {
        let share = 100.0 * site.bytes / live_bytes;
        let (size, count) = (bytes(site.bytes.round() as u64), blocks(site.blocks));
        line(format_args!(
            "  {size:>10}  {share:5.1} % {count:>7}  {stack}\n"
        ));
    }
    if let Some(more) = sites.len().checked_sub(SITES).filter(|&n| n > 0) {
        line(format_args!("  and {} places more\n", grouped(more as u64)));
    }
    line(format_args!("\n"));
    for file in files {
        line(format_args!("  wrote {}\n", file.display()));
    }
    text
}

#[derive(Default)]
struct Site {
    bytes: f64,
    blocks: f64,
}

/// Live bytes by the nearest functions.
fn sites(profile: &Profile) -> HashMap<String, Site> {
    let mut sites = HashMap::<String, Site>::new();
    for sample in profile.samples.iter().filter(|s| s.live > 0.0) {
        let names = sample
            .stack
            .iter()
            .flat_map(|place| &place.frames)
            .map(|f| f.function.as_str());
        let nearest: Vec<_> = names.take(CALLERS).collect();
        let site = sites.entry(nearest.join(" < ")).or_default();
        site.bytes += sample.live_bytes;
        site.blocks += sample.live;
    }
    sites
}
