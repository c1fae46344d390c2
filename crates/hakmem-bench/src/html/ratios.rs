//! Time and peak memory of workloads or programs: charts of the ratios to the best peer, geometric
//! means, a table.

use super::dots::{self, Dot};
use super::number::{figure, ratio};
use super::palette::{Palette, SUBJECT, sign};
use super::strips;
use crate::record::Record;
use crate::report::Row;
use crate::stats::geomean;
use maud::{Markup, html};

/// What a chart shows of a row.
#[derive(Clone, Copy)]
struct Measure {
    name: &'static str,
    id: &'static str,
    of: fn(&Row) -> Option<f64>,
    /// A value as people read it.
    shown: fn(f64) -> String,
}

const MEASURES: [Measure; 2] = [
    Measure {
        name: "time",
        id: "time",
        of: |r| r.nanos,
        shown: |n| format!("{} ms", figure(n / 1e6)),
    },
    Measure {
        name: "peak memory",
        id: "rss",
        of: |r| r.max_rss_kib,
        shown: |k| format!("{} MiB", figure(k / 1024.0)),
    },
];

/// The section of one record; `thing` is what its rows are, `id` unique in the page.
pub fn section(record: &Record, palette: &Palette, id: &str, heading: &str, thing: &str) -> Markup {
    let mut names: Vec<String> = Vec::new();
    for row in &record.summary.rows {
        if !names.contains(&row.allocator) {
            names.push(row.allocator.clone());
        }
    }
    palette.sort(&mut names);
    html! {
        section id=(id) aria-labelledby={ (id) "-h" } {
            h2 id={ (id) "-h" } { (heading) }
            ul.legend aria-label="allocators and their marks" {
                @for name in &names {
                    li.subject[name == SUBJECT] { (sign(palette.style(name), name)) (name) }
                }
            }
            (means(record, palette, id, thing))
            @for measure in &MEASURES {
                (chart(record, palette, measure, id, thing))
            }
            (table(record, thing))
            (failures(record))
        }
    }
}

/// How often the subject is at least as good as the best peer, of how many workloads.
pub fn ahead(record: &Record) -> (usize, usize) {
    let rows = dot_rows(record, &Palette::new(&[]), &MEASURES[0]);
    let of = rows.iter().filter_map(dots::Row::subject);
    (
        of.clone().filter(|v| dots::is_level(*v)).count(),
        of.count(),
    )
}

fn workloads(record: &Record) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in &record.summary.rows {
        if !names.contains(&row.workload.as_str()) {
            names.push(&row.workload);
        }
    }
    names
}

fn rows_of<'a>(record: &'a Record, workload: &'a str) -> impl Iterator<Item = &'a Row> + Clone {
    record
        .summary
        .rows
        .iter()
        .filter(move |r| r.workload == workload)
}

/// One row per workload that has figures, relative to the best allocator that is not the subject;
/// the one where the subject does worst first, as that is what a reader should see.
fn dot_rows(record: &Record, palette: &Palette, measure: &Measure) -> Vec<dots::Row> {
    let mut rows: Vec<dots::Row> = workloads(record)
        .into_iter()
        .filter_map(|workload| {
            let mine = rows_of(record, workload);
            let positive = |r: &Row| (measure.of)(r).filter(|v| *v > 0.0 && v.is_finite());
            let peers = mine
                .clone()
                .filter(|r| r.allocator != SUBJECT)
                .filter_map(positive);
            // Alone, the subject has only itself to compare with.
            let best = peers
                .reduce(f64::min)
                .or_else(|| mine.clone().find_map(positive))?;
            let dots = mine.filter_map(|row| {
                let value = positive(row)?;
                let title = format!(
                    "{workload}, {}: {}, {} × the best peer",
                    row.allocator,
                    (measure.shown)(value),
                    ratio(value / best)
                );
                let style = palette.style(&row.allocator);
                Some(Dot {
                    style,
                    value: value / best,
                    title,
                })
            });
            Some(dots::Row {
                label: workload.to_owned(),
                dots: dots.collect(),
            })
        })
        .collect();
    rows.sort_by(|a, b| {
        let worth = |row: &dots::Row| row.subject().unwrap_or(0.0);
        worth(b).total_cmp(&worth(a))
    });
    rows
}

fn chart(record: &Record, palette: &Palette, measure: &Measure, id: &str, thing: &str) -> Markup {
    let rows = dot_rows(record, palette, measure);
    if rows.is_empty() {
        return html! { p.note { "This record has no " (measure.name) "." } };
    }
    let values: Vec<f64> = rows.iter().filter_map(dots::Row::subject).collect();
    let ahead = values.iter().filter(|v| dots::is_level(**v)).count();
    let mut said = format!(
        "Ratios of {} to the best peer of each {thing}, logarithmic.",
        measure.name
    );
    if let Some(mean) = geomean(&values) {
        said.push_str(&format!(
            " {SUBJECT} is level with or ahead of the best peer on {ahead} of {} and at {} × it \
             in the geometric mean.",
            values.len(),
            ratio(mean)
        ));
    }
    let title = format!("{} by {thing}", capital(measure.name));
    html! {
        figure.long {
            h3 { (title) ", relative to the best peer" }
            figcaption {
                (said) " Further left is better. The column at the right is " (SUBJECT) "'s ratio; it is sorted by that, its worst first."
            }
            (dots::draw(&format!("{id}-{}", measure.id), &said, &rows))
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |c| c.to_uppercase().chain(letters).collect())
}

fn means(record: &Record, palette: &Palette, id: &str, thing: &str) -> Markup {
    let overall = &record.summary.overall;
    let base = &record.summary.base;
    let one = |name: &str, which: &str, of: fn(&crate::report::Overall) -> Option<f64>| {
        let mut strips: Vec<strips::Strip> = overall
            .iter()
            .filter_map(|o| {
                let value = of(o).filter(|v| v.is_finite())?;
                Some(strips::Strip {
                    style: palette.style(&o.allocator),
                    label: o.allocator.clone(),
                    value,
                    shown: format!("{} ×", ratio(value)),
                })
            })
            .collect();
        strips.sort_by(|a, b| a.value.total_cmp(&b.value));
        let title = format!("{name}, geometric mean over each {thing}, × {base}");
        html! {
            @if !strips.is_empty() {
                figure {
                    h3 { (name) ", geometric mean, × " (base) }
                    (strips::draw(&format!("{id}-mean-{which}"), &title, &strips, None))
                }
            }
        }
    };
    html! {
        div.pair {
            (one("Time", "time", |o| o.time_ratio))
            (one("Peak memory", "rss", |o| o.rss_ratio))
        }
        @if overall.iter().any(|o| o.workloads < workloads(record).len()) {
            p.note {
                "Not every allocator has figures for each " (thing) ": "
                @for (i, o) in overall.iter().enumerate() {
                    @if i > 0 { ", " }
                    (o.allocator) " " (o.workloads)
                }
                "."
            }
        }
    }
}

fn table(record: &Record, thing: &str) -> Markup {
    let optional = |v: Option<f64>, show: fn(f64) -> String| v.map_or_else(|| "–".to_owned(), show);
    let base = &record.summary.base;
    html! {
        details {
            summary { "All figures as a table" }
            div.scroll {
                table {
                    caption { "Medians; ± is the median absolute deviation of the time. The best \
                        of each " (thing) " is bold." }
                    thead { tr {
                        th scope="col" { (thing) }
                        th scope="col" { "allocator" }
                        th.num scope="col" { "time ms" }
                        th.num scope="col" { "±" }
                        th.num scope="col" { "× " (base) }
                        th.num scope="col" { "peak RSS MiB" }
                        th.num scope="col" { "× " (base) }
                        th.num scope="col" { "faults" }
                        th.num scope="col" { "memory calls" }
                        th.num scope="col" { "all calls" }
                    } }
                    tbody {
                        @for workload in workloads(record) {
                            @let best = MEASURES.map(|m| rows_of(record, workload).filter_map(m.of).reduce(f64::min));
                            @for (i, row) in rows_of(record, workload).enumerate() {
                                tr.group[i == 0] {
                                    th scope="row" { (row.workload) }
                                    td.subject[row.allocator == SUBJECT] { (row.allocator) }
                                    td.num.best[row.nanos.is_some() && row.nanos == best[0]] { (optional(row.nanos, |n| figure(n / 1e6))) }
                                    td.num { (optional(row.time_spread, |s| format!("{:.1} %", s * 100.0))) }
                                    td.num { (optional(row.time_ratio, ratio)) }
                                    td.num.best[row.max_rss_kib.is_some() && row.max_rss_kib == best[1]] { (optional(row.max_rss_kib, |k| figure(k / 1024.0))) }
                                    td.num { (optional(row.rss_ratio, ratio)) }
                                    td.num { (optional(row.faults, |f| figure(f.round()))) }
                                    td.num { (optional(row.memory_calls.map(|n| n as f64), figure)) }
                                    td.num { (optional(row.all_calls.map(|n| n as f64), figure)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn failures(record: &Record) -> Markup {
    html! {
        @if !record.failures.is_empty() {
            h3 { "What went wrong" }
            ul {
                @for f in &record.failures {
                    li { (f.workload) " on " (f.allocator) ": " (f.what) }
                }
            }
        }
    }
}
