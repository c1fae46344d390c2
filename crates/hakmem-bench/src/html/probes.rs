//! Probes: a small chart each, with the line of its target.

use super::number::figure;
use super::palette::Palette;
use super::strips::{self, Limit, Strip};
use crate::record::Record;
use crate::sample::Target;
use crate::stats::median;
use maud::{Markup, html};

/// The section over all records, or a line that there are no probes.
pub fn section(records: &[Record], palette: &Palette) -> Markup {
    let any = records.iter().any(|r| !r.probes.is_empty());
    html! {
        section id="probes" aria-labelledby="probes-h" {
            h2 #probes-h { "Probes" }
            @if any {
                p.note { "Single figures of single behaviours: medians, less is better. A dashed \
                    line is the target." }
                @for (n, record) in records.iter().enumerate() {
                    @if !record.probes.is_empty() { (charts(record, palette, n)) }
                }
            } @else {
                p.note { "No record here has probes." }
            }
        }
    }
}

fn charts(record: &Record, palette: &Palette, number: usize) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for probe in &record.probes {
        if !names.contains(&probe.probe.as_str()) {
            names.push(&probe.probe);
        }
    }
    html! {
        div.pair {
            @for (i, name) in names.iter().enumerate() {
                (chart(record, palette, name, &format!("probe-{number}-{i}")))
            }
        }
    }
}

fn chart(record: &Record, palette: &Palette, name: &str, id: &str) -> Markup {
    let mine = || {
        record
            .probes
            .iter()
            .filter(|p| p.probe == name && p.value.is_finite())
    };
    let mut allocators: Vec<String> = Vec::new();
    for probe in mine() {
        if !allocators.contains(&probe.allocator) {
            allocators.push(probe.allocator.clone());
        }
    }
    palette.sort(&mut allocators);
    let unit = mine().next().map_or("", |p| p.unit.as_str());
    let strips: Vec<Strip> = allocators
        .into_iter()
        .filter_map(|label| {
            let values: Vec<f64> = mine()
                .filter(|p| p.allocator == label)
                .map(|p| p.value)
                .collect();
            let value = median(&values)?;
            Some(Strip {
                style: palette.style(&label),
                shown: figure(value),
                label,
                value,
            })
        })
        .collect();
    let limit = target_of(record, name, unit).map(|t| Limit {
        value: t.limit,
        shown: format!("target ≤ {}", figure(t.limit)),
    });
    let title = match unit {
        "" => name.to_owned(),
        _ => format!("{name}, {unit}"),
    };
    html! {
        figure {
            h3 { (title) }
            @if strips.is_empty() {
                p.note { "No figures." }
            } @else {
                (strips::draw(id, &title, &strips, limit.as_ref()))
            }
        }
    }
}

/// The target of a probe is called as the probe is, or so with more words after it, and has the
/// same unit: a limit in another unit, as a ratio, cannot be drawn on the probe's axis.
fn target_of<'a>(record: &'a Record, probe: &str, unit: &str) -> Option<&'a Target> {
    let belongs = |t: &&Target| {
        let rest = t.name.strip_prefix(probe);
        t.unit == unit
            && rest.is_some_and(|r| !r.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    record
        .targets
        .iter()
        .filter(belongs)
        .min_by_key(|t| t.name.len())
}
