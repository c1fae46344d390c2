//! How allocators look: one colour and one shape each, the same on the whole page.
//!
//! The colours are told apart with any common colour blindness, and the shapes without colours; the
//! style sheet has the colours, as `a0`, `a1`, … for light and dark pages.

use crate::record::Record;
use maud::{Markup, html};

/// The allocator that the page is about.
pub const SUBJECT: &str = "hakmem";
/// The style of the system's allocator, which is no rival but the ground that all stand on.
const SYSTEM: usize = 1;
/// Styles of the style sheet.
const STYLES: usize = 9;

/// The allocators of a page, in order.
#[derive(Debug)]
pub struct Palette(Vec<(String, usize)>);

impl Palette {
    /// Of all allocators in the records: first the subject, then as they come.
    pub fn new(records: &[Record]) -> Self {
        let mut palette = Self(vec![(SUBJECT.to_owned(), 0)]);
        let mut others = 0;
        for name in records.iter().flat_map(names) {
            if palette.0.iter().any(|(n, _)| n == name) {
                continue;
            }
            let style = if is_system(name) {
                SYSTEM
            } else {
                others += 1;
                SYSTEM + 1 + (others - 1) % (STYLES - SYSTEM - 1)
            };
            palette.0.push((name.to_owned(), style));
        }
        palette
    }

    /// The style of an allocator.
    pub fn style(&self, name: &str) -> usize {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map_or(SYSTEM, |(_, style)| *style)
    }

    /// Puts names in the order of the page.
    pub fn sort(&self, names: &mut [String]) {
        names.sort_by_key(|name| self.0.iter().position(|(n, _)| n == name));
    }
}

/// Whether this names the system's allocator: built in, or the run without a library.
pub fn is_system(name: &str) -> bool {
    matches!(name, "system" | "none")
}

fn names(record: &Record) -> impl Iterator<Item = &str> {
    let rows = record.summary.rows.iter().map(|r| r.allocator.as_str());
    let probes = record.probes.iter().map(|p| p.allocator.as_str());
    let series = record.series.iter().map(|s| s.allocator.as_str());
    rows.chain(probes).chain(series)
}

/// A style's mark, with a name that shows when it is pointed at.
pub fn sign(style: usize, title: &str) -> Markup {
    html! {
        svg.sign viewBox="-8 -8 16 16" {
            title { (title) }
            path class={ "a" (style) } d=(shape(style)) {}
        }
    }
}

/// The outline of a style's mark around the origin, about ten units across.
fn shape(style: usize) -> &'static str {
    match style {
        // A disc, larger than all others.
        0 => "M-6.5 0a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0 -13 0z",
        // An upright bar.
        1 => "M-2 -6.5h4v13h-4z",
        // A square.
        2 => "M-4.5 -4.5h9v9h-9z",
        // A triangle.
        3 => "M0 -5.8L5.4 4.2H-5.4z",
        // A diamond.
        4 => "M0 -6.2L6.2 0L0 6.2L-6.2 0z",
        // A triangle that points down.
        5 => "M0 5.8L5.4 -4.2H-5.4z",
        // A plus.
        6 => "M-1.8 -5.8h3.6v4h4v3.6h-4v4h-3.6v-4h-4v-3.6h4z",
        // A ring.
        7 => {
            "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0zM-2.4 0a2.4 2.4 0 1 1 4.8 0a2.4 2.4 0 1 1 -4.8 0z"
        }
        // A cross.
        _ => {
            "M-5.6 -3.2L-3.2 -5.6L0 -2.4L3.2 -5.6L5.6 -3.2L2.4 0L5.6 3.2L3.2 5.6L0 2.4L-3.2 \
             5.6L-5.6 3.2L-2.4 0z"
        }
    }
}
