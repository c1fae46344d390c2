//! The page as a whole.

use super::number::{date, ratio};
use super::palette::{Palette, SUBJECT};
use super::targets::{self, Causes};
use super::{origin, probes, ratios, series};
use crate::record::Record;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// The page of these records; `causes` says why targets were missed.
pub fn render(records: &[Record], causes: &Causes) -> String {
    let palette = Palette::new(records);
    let sections: Vec<Section> = tables(records);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "hakmem beside its peers: results" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "hakmem beside its peers" }
                    p.lead { (when(records)) }
                    (tiles(records))
                    nav aria-label="Sections" { ul {
                        @for s in &sections { li { a href={ "#" (s.id) } { (s.heading) } } }
                        li { a href="#memory" { "Memory over time" } }
                        li { a href="#scaling" { "Scaling" } }
                        li { a href="#probes" { "Probes" } }
                        li { a href="#targets" { "Targets" } }
                        li { a href="#origin" { "Where the figures come from" } }
                    } }
                }
                main {
                    @for s in &sections {
                        (ratios::section(s.record, &palette, &s.id, &s.heading, s.thing))
                    }
                    @if !sections.iter().any(|s| s.thing == WORKLOAD) { p.note { "No record here \
                        has workloads." } }
                    @if !sections.iter().any(|s| s.thing == PROGRAM) { p.note { "No record here \
                        has whole programs." } }
                    (series::sections(records, &palette))
                    (probes::section(records, &palette))
                    (targets::section(records, causes))
                    (origin::section(records))
                }
            }
        }
    };
    // Charts and style have a line for each element, which only makes the file longer to look at.
    page.into_string().replace('\n', " ")
}

const WORKLOAD: &str = "workload";
const PROGRAM: &str = "program";

/// A record that has rows.
struct Section<'a> {
    record: &'a Record,
    id: String,
    heading: String,
    thing: &'static str,
}

/// The records with rows: workloads first, then programs.
fn tables(records: &[Record]) -> Vec<Section<'_>> {
    let with_rows = records
        .iter()
        .enumerate()
        .filter(|(_, r)| !r.summary.rows.is_empty());
    let mut sections: Vec<Section> = with_rows
        .map(|(n, record)| {
            let programs = matches!(record.kind.as_str(), "preload" | "programs");
            let (thing, heading) = if programs {
                (PROGRAM, "Whole programs")
            } else if record.kind == "preloaded" {
                (WORKLOAD, "Workloads under preloaded libraries")
            } else {
                (WORKLOAD, "Workloads")
            };
            Section {
                record,
                id: format!("{thing}s-{n}"),
                heading: heading.to_owned(),
                thing,
            }
        })
        .collect();
    sections.sort_by_key(|s| s.thing != WORKLOAD);
    // Where there are several of one kind, their dates tell them apart.
    let headings: Vec<String> = sections.iter().map(|s| s.heading.clone()).collect();
    for section in &mut sections {
        if headings.iter().filter(|h| **h == section.heading).count() > 1 {
            section.heading = format!(
                "{}, {} of {}",
                section.heading,
                section.record.kind,
                date(section.record.unix_time)
            );
        }
    }
    sections
}

/// When and where, in a sentence.
fn when(records: &[Record]) -> String {
    let Some(newest) = records.iter().max_by_key(|r| r.unix_time) else {
        return "No records.".to_owned();
    };
    let machine = &newest.machine;
    let day = date(newest.unix_time);
    let day = day.split(' ').next().unwrap_or_default();
    format!(
        "Measured on {day}, on {} with {} cores, {}. Less is better everywhere.",
        machine.cpu, machine.cores, machine.kernel
    )
}

/// The figures that a reader in a hurry wants.
fn tiles(records: &[Record]) -> Markup {
    let tally = targets::Tally::new(records);
    html! {
        ul.tiles {
            @for s in tables(records) {
                @let base = &s.record.summary.base;
                @let mine = s.record.summary.overall.iter().find(|o| o.allocator == SUBJECT);
                @let over = format!("geometric mean of {} {}s", mine.map_or(0, |o| o.workloads), s.thing);
                @if let Some(time) = mine.and_then(|o| o.time_ratio) {
                    (tile(&format!("{} ×", ratio(time)), &format!("the time of {base}, {over}")))
                }
                @if let Some(rss) = mine.and_then(|o| o.rss_ratio) {
                    (tile(&format!("{} ×", ratio(rss)), &format!("the peak memory of {base}, \
                        {over}")))
                }
                @let (ahead, all) = ratios::ahead(s.record);
                @if all > 0 && s.thing == WORKLOAD {
                    (tile(&format!("{ahead} of {all}"), "workloads as fast as the best peer of \
                        each, or faster"))
                }
            }
            @if tally.measured() > 0 {
                (tile(&format!("{} of {}", tally.met, tally.measured()), &tally.caption()))
            }
        }
    }
}

fn tile(figure: &str, says: &str) -> Markup {
    html! { li { b { (figure) } span { (says) } } }
}
