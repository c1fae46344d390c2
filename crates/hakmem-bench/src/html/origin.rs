//! Where the figures come from: machine, build, versions, command.

use super::number::date;
use crate::record::Record;
use maud::{Markup, html};

/// The last section.
pub fn section(records: &[Record]) -> Markup {
    html! {
        section id="origin" aria-labelledby="origin-h" {
            h2 #origin-h { "Where the figures come from" }
            @for record in records { (one(record)) }
            p.note {
                "Every timed run is a process of its own; allocators alternate within each round. \
                 Figures are medians over the rounds. How it is measured: "
                code { "docs/benchmarks.md" } "."
            }
        }
    }
}

fn one(record: &Record) -> Markup {
    let (machine, build) = (&record.machine, &record.build);
    let gib = machine.memory_kib as f64 / (1024.0 * 1024.0);
    html! {
        h3 { (record.kind) ", " (date(record.unix_time)) }
        @if record.quick {
            p { b { "A quick run:" } " short counts and few rounds, for a look only." }
        }
        dl {
            dt { "machine" } dd { (machine.cpu) ", " (machine.cores) " cores, " (format!("{gib:.1}")) " GiB, " (machine.kernel) }
            dt { "huge pages" } dd { (machine.huge_pages) }
            dt { "load at the start" } dd { (machine.load) }
            dt { "build" } dd { (build.rustc) ", " (build.target) ", " (build.profile) ", hakmem-bench " (build.hakmem_bench) }
            @if !build.allocators.is_empty() {
                dt { "built in" }
                dd { @for (i, (name, version)) in build.allocators.iter().enumerate() { @if i > 0 { "; " } (name) " " (version) } }
            }
            @if !record.libraries.is_empty() {
                dt { "libraries" }
                dd { @for (i, (name, path)) in record.libraries.iter().enumerate() { @if i > 0 { "; " } (name) ": " code { (path) } } }
            }
            dt { "rounds" } dd { (record.rounds) }
            dt { "command" } dd { code { (record.command.join(" ")) } }
        }
    }
}
