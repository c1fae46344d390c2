//! A look as plain text.

use super::rates::{History, Rates};
use crate::checked::total;
use crate::stat::figures::Class;
use crate::stat::table::{Left, Right, grid, percent};
use crate::summary::{bytes, grouped};
use crate::view::{Decision, Look};

/// Decisions that are shown.
const DECISIONS: usize = 8;

/// What a rate is shown as; before there is one, a dash.
pub fn rate(value: Option<f64>) -> String {
    match value {
        Some(value) if value < 10.0 => format!("{value:.1}"),
        Some(value) => grouped(value.round() as u64),
        None => "-".into(),
    }
}

/// The newest look, as text. `now` is the time on the decisions' clock.
pub fn text(history: &History, now: u32) -> String {
    let Some(look) = history.look() else {
        return String::new();
    };
    let mut text = format!("{}\n\n", title(look, history.rates.as_ref()));
    text += &grid(
        &[Left, Right, Right],
        &activity(look, history.rates.as_ref()),
    );
    text.push('\n');
    text += &grid(&[Left, Left], &memory(look));
    text.push('\n');
    text += &grid(&[Right; 9], &classes(look, history.rates.as_ref()));
    if !look.decisions.is_empty() {
        text += "\n  decisions\n";
        let last = look.decisions.len().saturating_sub(DECISIONS);
        for decision in &look.decisions[last..] {
            text += &format!("  {}\n", line(decision, now));
        }
    }
    text
}

pub fn title(look: &Look, rates: Option<&Rates>) -> String {
    let (m, u) = (&look.moment, &look.usage);
    let threads = match u.threads {
        1 => "1 thread".to_owned(),
        n => format!("{n} threads"),
    };
    let cpu = rates.map_or(String::new(), |r| {
        format!(", {:.0} % of a processor", r.cpu * 100.0)
    });
    format!("process {} ({}), {threads}{cpu}", m.pid, u.name)
}

pub fn line(decision: &Decision, now: u32) -> String {
    let seconds = f64::from(decision.age(now)) / 1000.0;
    format!("{seconds:>8.1} s ago  {}", decision.what)
}

/// Rows of a name, a total and what it is per second.
pub fn activity(look: &Look, rates: Option<&Rates>) -> Vec<[String; 3]> {
    let m = &look.moment;
    let of = |f: fn(&Rates) -> f64| rate(rates.map(f));
    let small = total(m.classes.iter().map(|c| c.allocations));
    let hits = total(m.classes.iter().map(|c| c.list_hits));
    let now = rates.map_or("-".into(), |r| {
        let small = r.allocations - r.large - r.whales;
        percent((small - r.refills).max(0.0) as u64, small as u64)
    });
    let calls = total(m.syscalls.iter().map(|c| c.calls));
    let row = |name: &str, total: String, rate: String| [name.to_owned(), total, rate];
    vec![
        row("", "in all".into(), "a second".into()),
        row("allocations", grouped(m.allocations), of(|r| r.allocations)),
        row("frees", grouped(m.frees), of(|r| r.frees)),
        row("refills", grouped(m.refills), of(|r| r.refills)),
        row("served by a list", percent(hits, small), now),
        row(
            "freed by others",
            grouped(m.remote_frees),
            of(|r| r.remote_frees),
        ),
        row(
            "large blocks",
            grouped(m.large_allocations),
            of(|r| r.large),
        ),
        row("whales", grouped(m.whale_allocations), of(|r| r.whales)),
        row("system calls", grouped(calls), of(|r| r.syscalls)),
        row("given back", bytes(m.purged_bytes), {
            rates.map_or("-".into(), |r| bytes(r.purged_bytes as u64))
        }),
    ]
}

pub fn memory(look: &Look) -> Vec<[String; 2]> {
    let m = &look.moment;
    let slots = |n: u64| bytes(n << 16);
    let rows = [
        (
            "live",
            format!(
                "{}, at most {}",
                bytes(m.live_bytes),
                bytes(m.peak_live_bytes)
            ),
        ),
        (
            "resident",
            format!(
                "{} in the arenas, {} of the process, at most {}",
                bytes(m.resident_bytes),
                bytes(look.usage.resident_bytes),
                bytes(m.peak_resident_kib << 10)
            ),
        ),
        (
            "committed",
            format!(
                "{}, {} asked for as huge pages",
                bytes(m.committed_bytes),
                bytes(m.huge_bytes)
            ),
        ),
        (
            "free and kept",
            format!(
                "{}; on their way to other threads: {} blocks",
                bytes(m.dirty_bytes),
                grouped(m.in_flight)
            ),
        ),
        (
            "slots",
            format!(
                "pages {}, large {}, kept by heaps {}, free and resident {}, unused {}",
                slots(m.page_slots),
                slots(m.large_slots),
                slots(m.kept_slots),
                slots(m.empty_slots),
                slots(m.unused_slots)
            ),
        ),
        (
            "segments",
            format!(
                "{} of slots, {} of whales, {} in the whale cache",
                m.slotted_segments, m.whale_segments, m.cached_segments
            ),
        ),
        (
            "heaps",
            format!(
                "{}, of which threads have {}{}",
                m.heaps,
                m.running_heaps,
                match look.whole {
                    true => "",
                    false => "; lists changed while they were followed",
                }
            ),
        ),
    ];
    rows.into_iter()
        .map(|(name, value)| [name.to_owned(), value])
        .collect()
}

/// Heads of the table of classes.
pub const CLASS_HEADS: [&str; 9] = [
    "size",
    "live",
    "pages",
    "unused",
    "allocations",
    "a second",
    "frees",
    "by others",
    "list hits",
];

/// One row of it.
pub fn class(c: &Class, rates: Option<&Rates>) -> [String; 9] {
    [
        c.size.to_string(),
        bytes(c.live_bytes),
        c.pages.to_string(),
        percent(c.page_bytes.saturating_sub(c.live_bytes), c.page_bytes),
        grouped(c.allocations),
        rate(rates.map(|r| r.classes.get(&c.size).copied().unwrap_or(0.0))),
        grouped(c.frees),
        percent(c.remote_frees, c.frees),
        percent(c.list_hits, c.allocations),
    ]
}

fn classes(look: &Look, rates: Option<&Rates>) -> Vec<[String; 9]> {
    let head = [CLASS_HEADS.map(str::to_owned)];
    let rows = look.moment.classes.iter().map(|c| class(c, rates));
    head.into_iter().chain(rows).collect()
}
