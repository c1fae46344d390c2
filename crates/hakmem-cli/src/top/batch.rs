//! A reading as plain text.

use super::rates::{History, Rates};
use super::tables::{self, Order};
use crate::checked::total;
use crate::columns::Table;
use crate::lines::{length, wrap};
use crate::rows::{self, named};
use crate::stat::figures::Class;
use crate::stat::table::{CHANGED, hard_limit, in_arenas, live, percent, program_heaps, slots};
use crate::summary::{bytes, grouped, resident};
use crate::terminal::Terminal;
use crate::view::{Decision, Reading};

/// Decisions that are shown.
const DECISIONS: usize = 8;
/// Blanks in front of a row.
const INDENT: usize = 2;

/// What a rate is shown as; before there is one, a dash.
fn rate(value: Option<f64>) -> String {
    match value {
        Some(value) if value < 10.0 => format!("{value:.1}"),
        Some(value) => grouped(value.round() as u64),
        None => "-".into(),
    }
}

/// The newest reading, as text. `now` is the time on the decisions' clock. On a terminal, a table
/// of classes that is wider is shown as on the screen, with short counts and what fits of its
/// columns, and longer lines are broken.
pub fn text(history: &History, now: u32, terminal: Option<Terminal>) -> String {
    let Some(reading) = history.reading() else {
        return String::new();
    };
    let rates = history.rates.as_ref();
    let mut text = format!("{}\n\n", title(reading, rates));
    text += &activity(reading, rates).text(terminal);
    text.push('\n');
    text += &rows::text(&memory(reading), terminal);
    text.push('\n');
    let whole = classes(reading, rates).text(None);
    let fits = |width: usize| whole.lines().all(|line| length(line) <= width);
    text += &match terminal.is_none_or(|terminal| fits(terminal.width)) {
        true => whole,
        false => tables::classes(reading, Order::Size, rates).text(terminal),
    };
    text += &program_heaps(&reading.moment.program_heaps, terminal);
    if !reading.decisions.is_empty() {
        text += "\n  decisions\n";
        let last = reading.decisions.len().saturating_sub(DECISIONS);
        for decision in &reading.decisions[last..] {
            text += &format!("  {}\n", line(decision, now));
        }
    }
    match terminal {
        None => text,
        Some(terminal) => broken(&text, terminal.width),
    }
}

/// The text with no line longer than `width`.
fn broken(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        match length(line) <= width {
            true => lines.push(line.to_owned()),
            false => {
                let more = wrap(line, width.saturating_sub(INDENT), INDENT);
                lines.extend(more.iter().map(|line| format!("  {line}")));
            }
        }
    }
    lines.join("\n") + "\n"
}

pub fn title(reading: &Reading, rates: Option<&Rates>) -> String {
    let (m, u) = (&reading.moment, &reading.usage);
    let threads = match u.threads {
        0 => "threads not known".to_owned(),
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

/// A total, and what it is per second.
pub enum Total {
    Count(u64, Option<f64>),
    Bytes(u64, Option<u64>),
    /// A part of something, in all and since the last reading.
    Part(String, String),
}

/// What the process did, by name.
pub fn totals(reading: &Reading, rates: Option<&Rates>) -> [(&'static str, Total); 9] {
    use Total::{Bytes, Count, Part};
    let m = &reading.moment;
    let of = |f: fn(&Rates) -> f64| rates.map(f);
    let small = total(m.classes.iter().map(|c| c.allocations));
    let hits = total(m.classes.iter().map(|c| c.list_hits));
    let now = rates.map_or("-".into(), |r| {
        let small = r.allocations - r.large - r.huge;
        percent((small - r.refills).max(0.0) as u64, small as u64)
    });
    let calls = total(m.syscalls.iter().map(|c| c.calls));
    let given = rates.map(|r| r.purged_bytes as u64);
    [
        ("allocations", Count(m.allocations, of(|r| r.allocations))),
        ("frees", Count(m.frees, of(|r| r.frees))),
        ("refills", Count(m.refills, of(|r| r.refills))),
        ("served by a list", Part(percent(hits, small), now)),
        (
            "freed by others",
            Count(m.remote_frees, of(|r| r.remote_frees)),
        ),
        ("large blocks", Count(m.large_allocations, of(|r| r.large))),
        ("huge", Count(m.huge_allocations, of(|r| r.huge))),
        ("system calls", Count(calls, of(|r| r.syscalls))),
        ("given back", Bytes(m.purged_bytes, given)),
    ]
}

/// Rows of a name, a total and what it is per second.
fn activity(reading: &Reading, rates: Option<&Rates>) -> Table {
    let row = |(name, total): (&str, Total)| {
        let (all, per_second) = match total {
            Total::Count(n, per_second) => (grouped(n), rate(per_second)),
            Total::Bytes(n, per_second) => (bytes(n), per_second.map_or("-".into(), bytes)),
            Total::Part(all, now) => (all, now),
        };
        vec![name.to_owned(), all, per_second]
    };
    Table {
        names: true,
        ..Table::of(
            &tables::ACTIVITY,
            totals(reading, rates).into_iter().map(row),
        )
    }
}

fn memory(reading: &Reading) -> Vec<[String; 2]> {
    let m = &reading.moment;
    let mut rows = named([
        ("live", live(m)),
        (
            "resident",
            format!(
                "{} in the arenas, {} of the process, at most {}",
                in_arenas(m),
                resident(reading.usage.resident_bytes),
                resident(m.peak_resident_kib << 10)
            ),
        ),
        (
            "committed",
            format!(
                "{}, {} asked for as huge pages",
                bytes(m.committed_bytes),
                bytes(m.thp_bytes)
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
        ("slots", slots(m)),
        (
            "segments",
            format!(
                "{} of slots, {} of huge blocks, {} in the huge cache",
                m.slotted_segments, m.huge_segments, m.cached_segments
            ),
        ),
        (
            "heaps",
            format!(
                "{}, of which threads have {}{}",
                m.heaps,
                m.running_heaps,
                match reading.whole {
                    true => String::new(),
                    false => format!("; {CHANGED}"),
                }
            ),
        ),
    ]);
    rows.extend(hard_limit(m));
    rows
}

/// The table of classes, with all digits of the counts.
fn classes(reading: &Reading, rates: Option<&Rates>) -> Table {
    let row = |c: &Class| {
        vec![
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
    };
    Table::of(&tables::CLASSES, reading.moment.classes.iter().map(row))
}
