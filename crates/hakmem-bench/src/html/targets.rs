//! The table of what was to be reached.

use super::number::{figure, ratio};
use crate::record::Record;
use crate::sample::Target;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Why a target was missed, by its name.
pub type Causes = BTreeMap<String, String>;

/// The table over all records, or a line that there are none. What was not measured has a list of
/// its own.
pub fn section(records: &[Record], causes: &Causes) -> Markup {
    let all = || records.iter().flat_map(|r| &r.targets);
    let (measured, open): (Vec<&Target>, Vec<&Target>) = all().partition(|t| t.figure.is_some());
    html! {
        section id="targets" aria-labelledby="targets-h" {
            h2 #targets-h { "Targets" }
            @if all().next().is_none() {
                p.note { "No record here has targets." }
            } @else {
                p { (Tally::new(records).sentence()) }
                p.note { "Set before they were measured. A figure must not be above its limit. \
                    What was missed stands first, the furthest from its limit at the top." }
                @if !measured.is_empty() { (table(measured, causes)) }
                @if !open.is_empty() { (unmeasured(&open)) }
            }
        }
    }
}

/// How many targets were met, missed, and not measured. The last say nothing about hakmem.
#[derive(Debug, PartialEq, Eq)]
pub struct Tally {
    pub met: usize,
    missed: usize,
    open: usize,
}

impl Tally {
    /// Counts the targets of all records.
    pub fn new(records: &[Record]) -> Self {
        let count = |which: fn(&Target) -> bool| {
            let all = records.iter().flat_map(|r| &r.targets);
            all.filter(|t| which(t)).count()
        };
        Self {
            met: count(|t| t.figure.is_some() && t.met()),
            missed: count(|t| t.figure.is_some() && !t.met()),
            open: count(|t| t.figure.is_none()),
        }
    }

    /// How many have a figure.
    pub fn measured(&self) -> usize {
        self.met + self.missed
    }

    fn sentence(&self) -> String {
        let Self { met, missed, open } = self;
        format!("{met} met, {missed} missed, {open} not measured.")
    }

    /// What a tile says below the number of those that were met.
    pub fn caption(&self) -> String {
        match self.open {
            0 => "measured targets met".to_owned(),
            open => format!("measured targets met; not measured: {open}"),
        }
    }
}

/// Those without a figure, closed at first.
fn unmeasured(open: &[&Target]) -> Markup {
    html! {
        details {
            summary { "Not measured: " (open.len()) }
            ul {
                @for target in open {
                    li {
                        (target.name)
                        @if !target.against.is_empty() { ", " (target.against) }
                    }
                }
            }
        }
    }
}

/// The table of those that have a figure.
fn table(mut rows: Vec<&Target>, causes: &Causes) -> Markup {
    // Missed ones by how far, then those met; each in the order of the record.
    let rank = |t: &Target| match t.figure {
        Some(figure) if !t.met() => -figure / t.limit,
        _ => f64::INFINITY,
    };
    rows.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    html! {
        div.scroll {
            table.targets {
                caption { "Targets, with what was reached" }
                thead { tr {
                    th scope="col" { "target" }
                    th scope="col" { "what is to be reached" }
                    th.num scope="col" { "reached" }
                    th.num scope="col" { "at most" }
                    th scope="col" { "verdict" }
                    th scope="col" { "beside" }
                } }
                tbody {
                    @for target in rows {
                        tr {
                            th scope="row" { b { (target.name) } }
                            td { (target.what) }
                            td.num data-name="reached" {
                                @if let Some(f) = target.figure { (amount(f, &target.unit)) }
                            }
                            td.num data-name="at most" { (amount(target.limit, &target.unit)) }
                            td { (verdict(target)) }
                            td data-name="beside" { @if target.against.is_empty() { "–" } @else { (target.against) } }
                        }
                        @if !target.met() {
                            tr.cause { td colspan="6" { (cause(target, causes)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Why it was missed, as far as that is known.
fn cause<'a>(target: &Target, causes: &'a Causes) -> &'a str {
    causes
        .get(&target.name)
        .map_or("The cause was not looked for yet.", String::as_str)
}

/// The verdict in words: a sign and a colour only repeat it.
fn verdict(target: &Target) -> Markup {
    html! {
        @match target.figure {
            Some(f) if !target.met() => span.missed { "✗ " (missed_by(f, target.limit)) },
            _ => span.met { "✓ met" },
        }
    }
}

fn missed_by(figure: f64, limit: f64) -> String {
    let share = (figure / limit - 1.0) * 100.0;
    match share {
        s if !s.is_finite() || limit <= 0.0 => "missed".to_owned(),
        s if s < 0.1 => "missed by less than 0.1 %".to_owned(),
        s if s < 10.0 => format!("missed by {s:.1} %"),
        s if s < 1000.0 => format!("missed by {s:.0} %"),
        _ => format!("missed, {} times the limit", ratio(figure / limit)),
    }
}

/// A figure with its unit; ratios have none.
fn amount(value: f64, unit: &str) -> String {
    match unit {
        "" => format!("{} ×", ratio(value)),
        unit => format!("{} {unit}", figure(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_target_was_missed() {
        let cases = [
            (1.02, 1.0, "missed by 2.0 %"),
            (75.0, 50.0, "missed by 50 %"),
            (1.000_1, 1.0, "missed by less than 0.1 %"),
            (611.0, 45.0, "missed, 13.6 times the limit"),
            (5.0, 0.0, "missed"),
        ];
        for (figure, limit, text) in cases {
            assert_eq!(missed_by(figure, limit), text);
        }
    }
}
