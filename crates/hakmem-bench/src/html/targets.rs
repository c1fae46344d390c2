//! The table of what was to be reached.

use super::Causes;
use super::number::{figure, ratio};
use crate::record::{Record, Target};
use maud::{Markup, html};

/// The table over all records, or a line that there are none.
pub fn section(records: &[Record], causes: &Causes) -> Markup {
    let all: Vec<(&Record, &Target)> = records
        .iter()
        .flat_map(|r| r.targets.iter().map(move |t| (r, t)))
        .collect();
    html! {
        section id="targets" aria-labelledby="targets-h" {
            h2 #targets-h { "Targets" }
            @if all.is_empty() {
                p.note { "No record here has targets." }
            } @else {
                p.note { "Set before they were measured. A figure must not be above its limit. What was missed stands first, the furthest from its limit at the top." }
                (table(&all, causes))
            }
        }
    }
}

/// How many were met, of how many.
pub fn tally(records: &[Record]) -> (usize, usize) {
    let all = || records.iter().flat_map(|r| &r.targets);
    (all().filter(|t| t.met()).count(), all().count())
}

fn table(all: &[(&Record, &Target)], causes: &Causes) -> Markup {
    let mut rows = all.to_vec();
    // Missed ones by how far, then those without a figure, then those met; each in the order of the record.
    let rank = |t: &Target| match t.figure {
        Some(_) if t.met() => (2, 0.0),
        Some(f) => (0, -f / t.limit),
        None => (1, 0.0),
    };
    rows.sort_by(|(_, a), (_, b)| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
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
                    @for (_, target) in rows {
                        tr {
                            th scope="row" { b { (target.name) } }
                            td { (target.what) }
                            td.num data-name="reached" {
                                @match target.figure {
                                    Some(f) => (amount(f, &target.unit)),
                                    None => "–",
                                }
                            }
                            td.num data-name="at most" { (amount(target.limit, &target.unit)) }
                            td { (verdict(target)) }
                            td data-name="beside" { @if target.against.is_empty() { "–" } @else { (target.against) } }
                        }
                        @if target.figure.is_some() && !target.met() {
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
            None => span.unmeasured { "not measured" },
            Some(_) if target.met() => span.met { "✓ met" },
            Some(f) => span.missed { "✗ " (missed_by(f, target.limit)) },
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
