//! The chart of curves: one line per allocator, its name at its end.

use super::draw::{chart, embed, letters, line, percent, spread, stretched, text, upright};
use super::number::{figure, tick};
use super::scale::{Scale, Spacing};
use maud::{Markup, html};
use std::fmt::Write;
use svg::node::element::{Circle, Path, SVG};

/// Where the plot begins and ends.
const TOP: f64 = 24.0;
const BOTTOM: f64 = 264.0;
/// On an axis of so few places each one is marked.
const FEW: usize = 8;
/// A linear axis hides what is so many times smaller than the largest.
const MOST_UNLIKE: f64 = 40.0;

/// One line.
#[derive(Debug)]
pub struct Curve {
    /// The allocator's style.
    pub style: usize,
    /// Its name.
    pub label: String,
    /// Its points, finite and by x.
    pub points: Vec<(f64, f64)>,
}

/// What is on the axes.
#[derive(Debug)]
pub struct Axes<'a> {
    /// From left to right.
    pub x: &'a str,
    /// Upwards.
    pub y: &'a str,
    /// How x is spread.
    pub spacing: Spacing,
    /// Whether y is spread by ratios where its values are very unlike; otherwise it starts from zero.
    pub may_be_log: bool,
}

/// Draws them; `None` where there is no point that can be drawn.
pub fn draw(
    id: &str,
    title: &str,
    description: &str,
    axes: &Axes,
    curves: &[Curve],
) -> Option<Markup> {
    let points = || curves.iter().flat_map(|c| &c.points);
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let values = points().map(of);
        values.fold(None, |b, v| match b {
            None => Some((v, v)),
            Some((low, high)) => Some((v.min(low), v.max(high))),
        })
    };
    let ((x_low, x_high), (y_low, y_high)) = (bounds(|p| p.0)?, bounds(|p| p.1)?);
    let x = match axes.spacing {
        Spacing::Log if x_low > 0.0 => Scale::log(x_low, x_high),
        _ => Scale::linear(x_low.min(0.0), x_high),
    };
    let y = if axes.may_be_log && y_low > 0.0 && y_high > y_low * MOST_UNLIKE {
        Scale::log(y_low * 0.8, y_high * 1.1)
    } else {
        Scale::from_zero(y_high)
    };
    let image = frame(
        chart(id, BOTTOM + 44.0, title, description),
        &x,
        &y,
        axes,
        &places(curves),
    );
    let image = lines(image, &x, &y, curves);
    let longest = curves
        .iter()
        .map(|c| name(c).chars().count())
        .max()
        .unwrap_or(0);
    Some(html! { div.plot.curves style=(letters(longest)) { (embed(&image)) } })
}

/// What stands at the end of a curve: the allocator and its last figure.
fn name(curve: &Curve) -> String {
    let last = curve.points.last().map(|p| figure(p.1));
    format!("{} {}", curve.label, last.unwrap_or_default())
}

/// The distinct places on the x axis.
fn places(curves: &[Curve]) -> Vec<f64> {
    let mut places: Vec<f64> = curves.iter().flat_map(|c| &c.points).map(|p| p.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

fn height(y: &Scale, value: f64) -> f64 {
    BOTTOM - y.at(value) * (BOTTOM - TOP)
}

fn frame(mut image: SVG, x: &Scale, y: &Scale, axes: &Axes, places: &[f64]) -> SVG {
    for value in y.ticks() {
        let at = height(y, value);
        image = image
            .add(line("grid", (percent(0.0), at), (percent(1.0), at)))
            .add(text("tick end", -8, at + 4.0, &tick(value)));
    }
    let few = places.len() <= FEW && x.spacing() == Spacing::Log;
    for value in if few { places.to_vec() } else { x.ticks() } {
        let share = x.at(value);
        image = image
            .add(upright("grid", share, BOTTOM, BOTTOM + 4.0))
            .add(text(
                "tick mid",
                percent(share),
                BOTTOM + 18.0,
                &tick(value),
            ));
    }
    let spacing = |s: &Scale| {
        if s.spacing() == Spacing::Log {
            ", logarithmic"
        } else {
            ""
        }
    };
    image
        .add(text(
            "axis",
            -36,
            11.0,
            &format!("{}{}", axes.y, spacing(y)),
        ))
        .add(text(
            "axis mid",
            "50%",
            BOTTOM + 37.0,
            &format!("{}{}", axes.x, spacing(x)),
        ))
}

fn lines(mut image: SVG, x: &Scale, y: &Scale, curves: &[Curve]) -> SVG {
    // The subject last, on top of the others.
    let mut order: Vec<&Curve> = curves.iter().filter(|c| !c.points.is_empty()).collect();
    order.sort_by_key(|c| std::cmp::Reverse(c.style));
    let paths = order.iter().map(|curve| {
        let mut path = String::new();
        for (i, (px, py)) in curve.points.iter().enumerate() {
            let letter = if i == 0 { 'M' } else { 'L' };
            // Writing to a string cannot fail.
            let _ = write!(
                path,
                "{letter}{:.1} {:.1}",
                x.at(*px) * 1000.0,
                height(y, *py)
            );
        }
        Path::new()
            .set("class", format!("curve a{}", curve.style))
            .set("d", path)
    });
    image = image.add(stretched(BOTTOM, paths.collect()));
    if places(curves).len() <= 2 * FEW {
        for curve in &order {
            for (px, py) in &curve.points {
                let dot = Circle::new()
                    .set("class", format!("mark a{}", curve.style))
                    .set("cx", percent(x.at(*px)))
                    .set("cy", height(y, *py))
                    .set("r", if curve.style == 0 { 4.0 } else { 3.0 });
                image = image.add(dot);
            }
        }
    }
    let ends: Vec<(f64, f64)> = order
        .iter()
        .filter_map(|c| c.points.last().copied())
        .collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, py)| height(y, *py)).collect();
    for ((curve, at), (px, py)) in order.iter().zip(spread(&wanted, 15.0, BOTTOM)).zip(ends) {
        let class = format!("name t{}", curve.style);
        // A short line from where the curve ends to its name, which may have had to move.
        let end = height(y, py);
        image = image
            .add(line(
                &format!("lead a{}", curve.style),
                (percent(x.at(px)), end),
                (percent(1.0), end),
            ))
            .add(stretched_lead(end, at).set("class", format!("lead a{}", curve.style)))
            .add(text(&class, percent(1.0), at + 4.0, &name(curve)).set("dx", 18));
    }
    image
}

/// From the right edge of the plot at height `end` sixteen pixels further, to height `label`.
fn stretched_lead(end: f64, label: f64) -> SVG {
    SVG::new()
        .set("x", "100%")
        .set("y", 0)
        .set("overflow", "visible")
        .add(Path::new().set("d", format!("M0 {end:.1}L15 {label:.1}")))
}
