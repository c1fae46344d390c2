//! The chart of workloads: a row for each, a mark for each allocator where its ratio to the best peer lies.

use super::draw::{chart, embed, letters, line, mark, percent, text, upright};
use super::number::{ratio, tick};
use super::scale::Scale;
use maud::{Markup, html};
use svg::node::element::SVG;

/// Ratios above this are drawn at the edge: a few of some hundreds would squeeze all others together.
const EDGE: f64 = 8.0;
/// So close to the mark of 1, others are left out: on a phone they would touch.
const NEAR: f64 = 0.09;
/// Height of a row.
const ROW: f64 = 22.0;
/// Where the first row begins.
const TOP: f64 = 26.0;

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
pub fn draw(id: &str, title: &str, description: &str, rows: &[Row]) -> Markup {
    let values = || rows.iter().flat_map(|r| &r.dots).map(|d| d.value);
    let low = values().fold(0.8, f64::min);
    let high = values().fold(2.0, f64::max);
    let scale = Scale::log(low * 0.93, if high > EDGE { EDGE } else { high * 1.05 });
    let bottom = TOP + ROW * rows.len() as f64;

    let mut image = chart(id, bottom + 24.0, title, description);
    for value in scale.ticks() {
        let share = scale.at(value);
        let class = if value == 1.0 { "one" } else { "grid" };
        if value != 1.0 && (share - scale.at(1.0)).abs() < NEAR {
            continue;
        }
        let shown = tick(value) + if value == 1.0 { " ×" } else { "" };
        image = image
            .add(upright(class, share, TOP - 4.0, bottom))
            .add(text("tick mid", percent(share), 14.0, &shown))
            .add(text("tick mid", percent(share), bottom + 17.0, &shown));
    }
    for (i, row) in rows.iter().enumerate() {
        image = draw_row(image, row, TOP + ROW * (i as f64 + 0.5), &scale);
    }
    let longest = rows
        .iter()
        .map(|r| r.label.chars().count())
        .max()
        .unwrap_or(0);
    html! {
        div.plot.dots style=(letters(longest)) { (embed(&image)) }
        @if high > EDGE {
            p.note { "Marks with an arrow lie beyond " (tick(EDGE)) " ×; their figures are in the table." }
        }
    }
}

fn draw_row(mut image: SVG, row: &Row, y: f64, scale: &Scale) -> SVG {
    image = image
        .add(line("row", (percent(0.0), y), (percent(1.0), y)))
        .add(text("label end", -10, y + 4.0, &row.label));
    let mut beyond = 0;
    // The subject last, on top of those it coincides with.
    let (subject, peers): (Vec<_>, Vec<_>) = row.dots.iter().partition(|d| d.style == 0);
    for dot in peers.into_iter().chain(subject) {
        let mut shift = 0.0;
        if scale.is_beyond(dot.value) {
            shift = -12.0 * f64::from(beyond) - 8.0;
            beyond += 1;
        }
        image = image.add(mark(dot.style, scale.at(dot.value), y, shift, &dot.title));
    }
    if beyond > 0 {
        image = image.add(text("beyond", percent(1.0), y + 4.5, "›"));
    }
    if let Some(value) = row.subject() {
        let class = if !is_level(value) {
            "value behind"
        } else {
            "value"
        };
        let ahead = text(class, percent(1.0), y + 4.0, &ratio(value)).set("dx", 12);
        image = image.add(ahead);
    }
    image
}
