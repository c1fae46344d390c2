//! Resident memory and maps over time, as one image that stands by itself.

use super::flat::Flatness;
use hakmem_bench::html::scale::Scale;
use std::fmt::Write;
use svg::node::element::{Line, Path, Rectangle, SVG, Text, Title};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 930.0;
/// Where the two plots begin, and how high each is.
const TOPS: [f64; 2] = [66.0, 336.0];
const HEIGHT: f64 = 200.0;
const INK: &str = "#24292f";
const SOFT: &str = "#6e7781";
const GRID: &str = "#d8dee4";
const CURVE: &str = "#0969da";
const MEDIAN: &str = "#bc4c00";

/// One plot.
pub struct Plot<'a> {
    /// What it shows, with the unit.
    pub title: &'a str,
    /// Second and value.
    pub points: Vec<(u64, f64)>,
    /// The medians.
    pub flatness: Option<&'a Flatness>,
}

/// Draws two plots over the same time; `settled` is when the stretches begin.
pub fn draw(heading: &str, settled: u64, seconds: u64, plots: [Plot; 2]) -> SVG {
    let mut image = SVG::new()
        .set("viewBox", (0, 0, WIDTH, 600))
        .set("width", WIDTH)
        .set("height", 600)
        .set("role", "img")
        .set(
            "font-family",
            "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
        )
        .set("font-size", 13)
        .add(Title::new(heading))
        .add(
            Rectangle::new()
                .set("width", "100%")
                .set("height", "100%")
                .set("fill", "#ffffff"),
        )
        .add(
            text(LEFT, 26.0, "start", INK, heading)
                .set("font-size", 16)
                .set("font-weight", 600),
        );
    let minutes = Scale::linear(0.0, seconds as f64 / 60.0);
    let x = |second: f64| LEFT + minutes.at(second / 60.0) * (RIGHT - LEFT);
    for (plot, top) in plots.iter().zip(TOPS) {
        image = frame(image, plot, top, &minutes, x(settled as f64));
        let highest = plot.points.iter().map(|p| p.1).fold(0.0, f64::max);
        let scale = Scale::from_zero(highest);
        let y = |value: f64| top + (1.0 - scale.at(value)) * HEIGHT;
        for tick in scale.ticks() {
            image = image
                .add(line(LEFT, y(tick), RIGHT, y(tick), GRID))
                .add(text(
                    LEFT - 8.0,
                    y(tick) + 4.5,
                    "end",
                    SOFT,
                    &format!("{tick}"),
                ));
        }
        let mut path = String::new();
        for (i, (second, value)) in plot.points.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(
                path,
                "{}{:.1} {:.1}",
                if i == 0 { 'M' } else { 'L' },
                x(*second as f64),
                y(*value)
            );
        }
        let curve = Path::new()
            .set("d", path)
            .set("fill", "none")
            .set("stroke", CURVE);
        image = image.add(
            curve
                .set("stroke-width", 1.2)
                .set("stroke-linejoin", "round"),
        );
        for (first, last, middle) in plot.flatness.iter().flat_map(|f| &f.windows) {
            let (from, to) = (x(*first as f64), x(*last as f64));
            image = image
                .add(
                    line(from + 1.0, y(*middle), to - 1.0, y(*middle), MEDIAN)
                        .set("stroke-width", 3),
                )
                // A white edge keeps the number legible on the curve.
                .add(
                    text(
                        (from + to) / 2.0,
                        y(*middle) - 8.0,
                        "middle",
                        MEDIAN,
                        &short(*middle),
                    )
                    .set("font-weight", 600)
                    .set("stroke", "#ffffff")
                    .set("stroke-width", 4)
                    .set("paint-order", "stroke"),
                );
        }
    }
    image.add(text((LEFT + RIGHT) / 2.0, 585.0, "middle", SOFT, "minutes"))
}

fn frame(mut image: SVG, plot: &Plot, top: f64, minutes: &Scale, settled: f64) -> SVG {
    let bottom = top + HEIGHT;
    for tick in minutes.ticks() {
        let at = LEFT + minutes.at(tick) * (RIGHT - LEFT);
        image = image
            .add(line(at, bottom, at, bottom + 4.0, SOFT))
            .add(text(at, bottom + 19.0, "middle", SOFT, &short(tick)));
    }
    image
        .add(text(LEFT, top - 12.0, "start", INK, plot.title).set("font-weight", 600))
        .add(line(settled, top, settled, bottom, SOFT).set("stroke-dasharray", "4 3"))
}

fn short(value: f64) -> String {
    if value >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

fn text(x: f64, y: f64, anchor: &str, colour: &str, content: &str) -> Text {
    Text::new(content)
        .set("x", x)
        .set("y", y)
        .set("text-anchor", anchor)
        .set("fill", colour)
}

fn line(x1: f64, y1: f64, x2: f64, y2: f64, colour: &str) -> Line {
    let line = Line::new().set("x1", x1).set("y1", y1).set("x2", x2);
    line.set("y2", y2).set("stroke", colour)
}
