//! Curves: memory over time, and scaling.

use super::curves::{self, Axes, Curve, places};
use super::number::{figure, tick};
use super::palette::{Palette, SUBJECT};
use crate::growth::{BY_BLOCKS, BY_THREADS};
use crate::probes::{ALL_FREED, BLOCKED, DRIFT, FEW_KEPT, POOL};
use crate::record::Record;
use crate::sample::Series;
use maud::{Markup, html};

/// A table is no longer than this; of a longer curve it has every so manieth point.
const TABLE_ROWS: usize = 60;

/// What a chart says beside its curves.
struct Known<'a> {
    name: &'a str,
    heading: &'a str,
    says: &'a str,
    /// Whether x is spread by ratios.
    is_log: bool,
    /// Memory is drawn from zero: how much of it is given back is the point.
    is_memory: bool,
}

const MEMORY: &[Known<'static>] = &[
    Known {
        name: ALL_FREED,
        heading: "Memory over time: all freed, then idle",
        says: "Many small blocks are allocated, all are freed, and no further call is made. What \
            is given back shows as a fall.",
        is_log: false,
        is_memory: true,
    },
    Known {
        name: FEW_KEPT,
        heading: "Memory over time: one block in many kept, then idle",
        says: "As before, but some blocks scattered over all pages stay live.",
        is_log: false,
        is_memory: true,
    },
    Known {
        name: BLOCKED,
        heading: "Memory over time: freed by another thread",
        says: "One thread allocates and then sleeps, another one frees the blocks. What is free \
            belongs to a thread that does nothing about it.",
        is_log: false,
        is_memory: true,
    },
    Known {
        name: POOL,
        heading: "Memory over time: threads that wait",
        says: "64 threads allocate and free all of it, and then wait, each with what its heap \
            keeps.",
        is_log: false,
        is_memory: true,
    },
    Known {
        name: DRIFT,
        heading: "Memory over time: sizes that change",
        says: "As many bytes are live all the time, but their sizes change in six phases. A curve \
            ends earlier where the work is done faster.",
        is_log: false,
        is_memory: true,
    },
];

const SCALING: &[Known<'static>] = &[
    Known {
        name: BY_THREADS,
        heading: "Scaling by threads",
        says: "Level is ideal: no operation costs more because there are more threads.",
        is_log: true,
        is_memory: false,
    },
    Known {
        name: BY_BLOCKS,
        heading: "Scaling by live blocks",
        says: "Level is ideal; what all allocators share of a rise is the cache hierarchy's.",
        is_log: true,
        is_memory: false,
    },
];

/// Both sections, and one for series that are not known by name.
pub fn sections(records: &[Record], palette: &Palette) -> Markup {
    let known = |s: &&Series| MEMORY.iter().chain(SCALING).any(|k| k.name == s.name);
    let mut others: Vec<&str> = Vec::new();
    for series in records.iter().flat_map(|r| &r.series).filter(|s| !known(s)) {
        if !others.contains(&series.name.as_str()) {
            others.push(&series.name);
        }
    }
    html! {
        section id="memory" aria-labelledby="memory-h" {
            h2 #memory-h { "Memory over time" }
            (all_charts(records, palette, MEMORY))
        }
        section id="scaling" aria-labelledby="scaling-h" {
            h2 #scaling-h { "Scaling" }
            (all_charts(records, palette, SCALING))
        }
        @if !others.is_empty() {
            section id="curves" aria-labelledby="curves-h" {
                h2 #curves-h { "Further curves" }
                @for name in others { (charts(records, palette, &Known { name, heading: name, says: "", is_log: false, is_memory: false })) }
            }
        }
    }
}

/// The charts that a record has; a line for those that none has, if that is all of them.
fn all_charts(records: &[Record], palette: &Palette, all: &[Known]) -> Markup {
    let any = all.iter().any(|k| !with(records, k.name).is_empty());
    html! {
        @for known in all { (charts(records, palette, known)) }
        @if !any { p.note { "No record here has this." } }
    }
}

/// The records that have such a curve, with their places.
fn with<'a>(records: &'a [Record], name: &str) -> Vec<(usize, &'a Record)> {
    let has = |r: &Record| r.series.iter().any(|s| s.name == name);
    records.iter().enumerate().filter(|(_, r)| has(r)).collect()
}

fn charts(records: &[Record], palette: &Palette, known: &Known) -> Markup {
    html! {
        @for (n, record) in with(records, known.name) {
            (chart(record, palette, known, n))
        }
    }
}

fn chart(record: &Record, palette: &Palette, known: &Known, n: usize) -> Markup {
    let Known {
        name,
        heading,
        says,
        is_log,
        is_memory,
    } = *known;
    let mut mine: Vec<&Series> = record.series.iter().filter(|s| s.name == name).collect();
    mine.sort_by_key(|s| (s.allocator != SUBJECT, palette.style(&s.allocator)));
    let curves: Vec<Curve> = mine.iter().map(|s| curve(s, palette)).collect();
    let (x, y) = mine
        .first()
        .map_or(("", ""), |s| (s.x.as_str(), s.y.as_str()));
    let ends: Vec<String> = curves
        .iter()
        .filter_map(|c| Some(format!("{} {}", c.label, figure(c.points.last()?.1))))
        .collect();
    let said = format!("{heading}: {y} by {x}. At the end: {}.", ends.join(", "));
    // Names of series are any text, so that an id needs a number of its own.
    let place = record
        .series
        .iter()
        .position(|s| s.name == name)
        .unwrap_or(0);
    let id = format!("series-{n}-{place}");
    let drawn = curves::draw(
        &id,
        &said,
        &Axes {
            x,
            y,
            is_log,
            may_be_log: !is_memory,
        },
        &curves,
    );
    html! {
        figure {
            h3 { (heading) }
            @if !says.is_empty() { figcaption { (says) } }
            @match drawn {
                Some(drawn) => (drawn),
                None => p.note { "No points." },
            }
            (table(x, y, &curves))
        }
    }
}

/// The points of a series that can be drawn, by x.
fn curve(series: &Series, palette: &Palette) -> Curve {
    let finite = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
    let mut points: Vec<(f64, f64)> = series.points.iter().filter(finite).copied().collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Curve {
        style: palette.style(&series.allocator),
        label: series.allocator.clone(),
        points,
    }
}

fn table(x: &str, y: &str, curves: &[Curve]) -> Markup {
    let places = places(curves);
    let nth = places.len().div_ceil(TABLE_ROWS).max(1);
    // Curves sampled each at its own times share few places: the last figure up to the place is the
    // one then.
    let value = |curve: &Curve, place: f64| {
        curve
            .points
            .iter()
            .rev()
            .find(|p| p.0 <= place)
            .map(|p| p.1)
    };
    html! {
        details {
            summary { "As a table" }
            div.scroll {
                table {
                    caption { (y) @if nth > 1 { "; one place in " (nth) } }
                    thead { tr {
                        th.num scope="col" { (x) }
                        @for c in curves { th.num.subject[c.style == 0] scope="col" { (c.label) } }
                    } }
                    tbody {
                        @for place in places.iter().step_by(nth) {
                            tr {
                                th.num scope="row" { (tick(*place)) }
                                @for c in curves {
                                    td.num { (value(c, *place).map_or_else(|| "–".to_owned(), figure)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
