//! Small charts of one figure per allocator: bars, or marks on a logarithmic axis where bars would be too unlike.

use super::draw::{chart, embed, letters, line, mark, percent, text, upright};
use super::number::tick;
use super::scale::{Scale, Spacing};
use maud::{Markup, html};
use svg::node::element::{Rectangle, SVG, Text};

/// Bars are drawn as long as the longest is at most so many times the shortest.
const MOST_UNLIKE: f64 = 25.0;
/// Height of a row.
const ROW: f64 = 24.0;

/// One allocator's figure.
#[derive(Debug)]
pub struct Strip {
    /// The allocator's style.
    pub style: usize,
    /// Its name.
    pub label: String,
    /// The figure.
    pub value: f64,
    /// The figure as text.
    pub shown: String,
}

/// A line to compare with.
#[derive(Debug)]
pub struct Limit {
    /// Where it is.
    pub value: f64,
    /// What it says.
    pub shown: String,
}

/// Draws them in the order given.
pub fn draw(
    id: &str,
    title: &str,
    description: &str,
    strips: &[Strip],
    limit: Option<&Limit>,
) -> Markup {
    let scale = scale(strips, limit);
    let top = if limit.is_some() { 20.0 } else { 4.0 };
    let bottom = top + ROW * strips.len() as f64;
    let axis = if is_log(&scale) { 20.0 } else { 4.0 };
    let mut image = chart(id, bottom + axis, title, description);
    if is_log(&scale) {
        for value in scale.ticks() {
            let share = scale.at(value);
            let tick = text("tick mid", percent(share), bottom + 15.0, &tick(value));
            image = image.add(upright("grid", share, top, bottom)).add(tick);
        }
    }
    let rows = || (0..).map(|i| top + ROW * (f64::from(i) + 0.5)).zip(strips);
    for (y, strip) in rows() {
        image = amount(image, strip, y, &scale);
    }
    if let Some(limit) = limit {
        let share = scale.at(limit.value);
        // Anchored so that it stays inside the plot.
        let anchor = if share > 0.5 { "limit end" } else { "limit" };
        image = image
            .add(upright("limit", share, top - 4.0, bottom))
            .add(text(anchor, percent(share), 11.0, &limit.shown));
    }
    // On top of the line of the target, which may cross them.
    for (y, strip) in rows() {
        image = image.add(value(strip, y, &scale));
    }
    let longest = strips.iter().map(|s| s.label.chars().count()).max();
    html! { div.plot.strips style=(letters(longest.unwrap_or(0))) { (embed(&image)) } }
}

/// From zero, or spread by ratios where the figures are very unlike.
fn scale(strips: &[Strip], limit: Option<&Limit>) -> Scale {
    let all = || strips.iter().map(|s| s.value).chain(limit.map(|l| l.value));
    let high = all().fold(0.0, f64::max);
    let low = all().filter(|v| *v > 0.0).fold(high, f64::min);
    if high > low * MOST_UNLIKE {
        Scale::log(low * 0.8, high * 1.1)
    } else {
        Scale::linear(0.0, if high > 0.0 { high * 1.02 } else { 1.0 })
    }
}

fn is_log(scale: &Scale) -> bool {
    scale.spacing() == Spacing::Log
}

/// The name of an allocator, and its bar or its mark.
fn amount(mut image: SVG, strip: &Strip, y: f64, scale: &Scale) -> SVG {
    let share = scale.at(strip.value);
    let class = match strip.style {
        0 => "label end subject",
        _ => "label end",
    };
    image = image.add(text(class, -8, y + 4.0, &strip.label));
    if is_log(scale) {
        return image
            .add(line("row", (percent(0.0), y), (percent(1.0), y)))
            .add(mark(strip.style, share, y, 0.0, &strip.shown));
    }
    let bar = Rectangle::new()
        .set("class", format!("bar a{}", strip.style))
        .set("x", 0)
        .set("y", y - 7.0)
        .set("width", percent(share))
        .set("height", 14);
    image.add(bar)
}

/// The figure: beside the end of a bar; on a logarithmic axis in a column, out of the way of grid and marks.
fn value(strip: &Strip, y: f64, scale: &Scale) -> Text {
    let (at, dx) = match is_log(scale) {
        true => (1.0, 12),
        false => (scale.at(strip.value), 6),
    };
    text("value", percent(at), y + 4.0, &strip.shown).set("dx", dx)
}
