//! The chart of workloads: a row for each, a mark for each allocator where its ratio to the best
//! peer lies.

use super::number::{ratio, tick};
use super::rows::{self, Drawn, Line, Mark, log_share, powers};
use maud::{Markup, html};

/// Ratios above this are drawn at the edge: a few of some hundreds would squeeze all others
/// together.
const EDGE: f64 = 8.0;

/// One mark.
#[derive(Debug)]
pub struct Dot {
    /// The style of its allocator.
    pub style: usize,
    /// The ratio.
    pub value: f64,
    /// What it says when pointed at.
    pub title: String,
}

/// One workload.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub label: String,
    /// Its marks.
    pub dots: Vec<Dot>,
}

impl Row {
    /// The ratio of the allocator that the page is about.
    pub fn subject(&self) -> Option<f64> {
        self.dots.iter().find(|d| d.style == 0).map(|d| d.value)
    }
}

/// Whether a ratio is 1.00 or less as it is printed.
pub fn is_level(ratio: f64) -> bool {
    ratio < 1.005
}

/// Draws the rows in the order given.
pub fn draw(id: &str, said: &str, rows: &[Row]) -> Markup {
    let values = || rows.iter().flat_map(|r| &r.dots).map(|d| d.value);
    let low = values().fold(0.8, f64::min) * 0.93;
    let highest = values().fold(2.0, f64::max) * 1.05;
    let high = if highest > EDGE * 1.05 { EDGE } else { highest };
    let line = |value: f64, below| Line {
        class: if value == 1.0 { "one" } else { "grid" },
        share: log_share(value, low, high),
        shown: tick(value) + if value == 1.0 { " ×" } else { "" },
        below,
    };
    // What lies between the powers of two is marked where there are few of them.
    let between = powers(2.0, low / 1.5, high / 1.5).map(|v| v * 1.5);
    let marked = powers(2.0, low, high).chain(between.filter(|_| high < low * 6.0));
    let lines: Vec<Line> = marked
        .flat_map(|v| [line(v, false), line(v, true)])
        .collect();
    let drawn: Vec<rows::Row> = rows.iter().map(|row| row_of(row, low, high)).collect();
    html! {
        (rows::draw(id, said, &lines, &drawn))
        @if highest > high {
            p.note { "Marks with an arrow lie beyond " (tick(EDGE)) " ×; their figures are in the \
                table." }
        }
    }
}

fn row_of(row: &Row, low: f64, high: f64) -> rows::Row {
    let mut dots: Vec<&Dot> = row.dots.iter().collect();
    // The subject last, on top of those it coincides with.
    dots.sort_by_key(|d| d.style == 0);
    let mark = |d: &Dot| Mark {
        style: d.style,
        share: (d.value <= high).then(|| log_share(d.value, low, high)),
        title: d.title.clone(),
    };
    let subject = row.subject();
    rows::Row {
        name: row.label.clone(),
        is_subject: false,
        shown: subject.map_or_else(String::new, ratio),
        is_behind: subject.is_some_and(|v| !is_level(v)),
        drawn: Drawn::Marks(dots.into_iter().map(mark).collect()),
    }
}
