//! The chart of curves: one line per allocator, its name at its end.
//!
//! plotters draws it, once for wide pages and once for telephones, so that letters have one size;
//! the style sheet shows one of the two, and has the colours.

use super::number::{figure, tick};
use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// The classes of the two images, with their widths and heights in pixels.
const IMAGES: [(&str, (u32, u32)); 2] = [("wide", (760, 300)), ("narrow", (340, 280))];
/// Curves of so few places have a dot at each.
const FEW: usize = 16;
/// A linear axis hides what is so many times smaller than the largest.
const MOST_UNLIKE: f64 = 40.0;
/// Pixels of a letter, of the height of a name, and of the line from a curve to its name.
const LETTER: u32 = 7;
const NAME: i32 = 15;
const LEAD: i32 = 15;
/// Names of more letters than this are cut off.
const LETTERS: usize = 22;
/// What the style sheet calls the colours: first those of the allocators' styles, then others.
const COLOURS: [&str; 12] = [
    "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "ink", "soft", "rule",
];
const INK: usize = 9;
const SOFT: usize = 10;
const RULE: usize = 11;

type Outcome<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

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
    /// Whether x is spread by ratios.
    pub is_log: bool,
    /// Whether y is spread by ratios where its values are very unlike.
    /// Otherwise it starts from zero.
    pub may_be_log: bool,
}

/// One axis. plotters has two types of them; which one is needed depends on the points.
#[derive(Clone)]
struct Axis {
    span: Range<f64>,
    is_log: bool,
}

impl Axis {
    fn new(low: f64, high: f64, is_log: bool) -> Self {
        let span = low..if high > low { high } else { low + 1.0 };
        Self { span, is_log }
    }

    fn titled(&self, title: &str) -> String {
        format!("{title}{}", if self.is_log { ", logarithmic" } else { "" })
    }

    fn linear(&self) -> RangedCoordf64 {
        self.span.clone().into()
    }

    /// Marked at powers of two, or of ten where those would be many.
    fn log(&self) -> LogCoord<f64> {
        let base = if self.span.end > self.span.start * 1e3 {
            10.0
        } else {
            2.0
        };
        self.span.clone().log_scale().base(base).into()
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        if self.is_log {
            self.log().map(value, limit)
        } else {
            self.linear().map(value, limit)
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if self.is_log {
            self.log().key_points(hint)
        } else {
            self.linear().key_points(hint)
        }
    }

    fn range(&self) -> Range<f64> {
        self.span.clone()
    }
}

/// Draws them; `None` where there is no point that can be drawn.
/// `said` is for those who cannot see it.
pub fn draw(id: &str, said: &str, axes: &Axes, curves: &[Curve]) -> Option<Markup> {
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let values = curves.iter().flat_map(|c| &c.points).map(of);
        let (low, high) = (values.clone().reduce(f64::min)?, values.reduce(f64::max)?);
        Some((low, high))
    };
    let ((x_low, x_high), (y_low, y_high)) = (bounds(|p| p.0)?, bounds(|p| p.1)?);
    let x = match axes.is_log && x_low > 0.0 {
        true => Axis::new(x_low, x_high, true),
        false => Axis::new(x_low.min(0.0), x_high, false),
    };
    let y = match axes.may_be_log && y_low > 0.0 && y_high > y_low * MOST_UNLIKE {
        true => Axis::new(y_low * 0.8, y_high * 1.1, true),
        false => Axis::new(0.0, y_high * 1.05, false),
    };
    let with_points = places(curves).len() <= FEW;
    let image = |size| {
        let mut image = String::new();
        let outcome = plot(&mut image, size, axes.x, (&x, &y), curves, with_points);
        outcome.map(|()| styled(&image))
    };
    Some(html! {
        p.said id={ (id) "-d" } { (said) }
        div.plot role="img" aria-labelledby={ (id) "-d" } {
            div.axis { (y.titled(axes.y)) }
            @for (class, size) in IMAGES {
                @match image(size) {
                    Ok(image) => div class=(class) { (image) },
                    Err(error) => p.note { "No picture: " (error) },
                }
            }
        }
    })
}

/// The distinct places on the x axis.
pub fn places(curves: &[Curve]) -> Vec<f64> {
    let mut places: Vec<f64> = curves.iter().flat_map(|c| &c.points).map(|p| p.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// An image as part of a page: the colours are those of the style sheet, and HTML knows the name
/// space by itself. Text has no plain quotes, so that nothing in it is replaced.
fn styled(image: &str) -> Markup {
    let mut image = image.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "");
    for (i, name) in COLOURS.iter().enumerate() {
        image = image.replace(&format!("\"#0000{i:02X}\""), &format!("\"var(--{name})\""));
    }
    PreEscaped(image)
}

/// A colour that `styled` puts in the place of one of the style sheet's.
fn colour(i: usize) -> RGBColor {
    RGBColor(0, 0, u8::try_from(i).unwrap_or(u8::MAX))
}

fn letters(i: usize) -> TextStyle<'static> {
    let font = ("inherit", 15).into_font();
    // The subject's style comes first.
    let font = if i == 0 {
        font.style(FontStyle::Bold)
    } else {
        font
    };
    font.color(&colour(if i < INK { INK } else { i }))
}

/// What stands at the end of a curve: the allocator and its last figure.
fn name(curve: &Curve) -> String {
    let last = curve.points.last().map(|p| figure(p.1));
    format!("{} {}", curve.label, last.unwrap_or_default())
}

/// Draws everything that is in an image, with `below` under the axis at the bottom.
fn plot<'a>(
    image: &'a mut String,
    size: (u32, u32),
    below: &str,
    (x, y): (&Axis, &Axis),
    curves: &[Curve],
    with_points: bool,
) -> Outcome<'a> {
    // The subject last, on top of the others.
    let mut order: Vec<&Curve> = curves.iter().filter(|c| !c.points.is_empty()).collect();
    order.sort_by_key(|c| std::cmp::Reverse(c.style));
    let longest = order
        .iter()
        .map(|c| name(c).chars().count())
        .max()
        .unwrap_or(0);
    let root = SVGBackend::with_string(image, size).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin_top(8)
        .margin_right(LETTER * longest.min(LETTERS) as u32 + 20)
        .x_label_area_size(42)
        .y_label_area_size(44)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(colour(RULE))
        .axis_style(colour(RULE))
        .x_labels(6)
        .y_labels(6)
        .x_desc(x.titled(below))
        .x_label_formatter(&|value| tick(*value))
        .y_label_formatter(&|value| tick(*value))
        .label_style(letters(SOFT))
        .axis_desc_style(letters(SOFT))
        .draw()?;
    let mut ends = Vec::new();
    for curve in order {
        let line = colour(curve.style).stroke_width(if curve.style == 0 { 3 } else { 2 });
        let points = || curve.points.iter().copied();
        chart.draw_series(LineSeries::new(points(), line))?;
        if with_points {
            let size = if curve.style == 0 { 4 } else { 3 };
            let dot = |at| Circle::new(at, size, colour(curve.style).filled());
            chart.draw_series(points().map(dot))?;
        }
        ends.extend(
            points()
                .last()
                .map(|end| (curve, chart.backend_coord(&end))),
        );
    }
    let right = chart.plotting_area().get_pixel_range().0.end;
    names(&root, right, &ends)?;
    root.present()
}

/// Writes what stands at the ends of the curves, beside the `right` edge of the plot.
fn names<'a>(
    root: &DrawingArea<SVGBackend<'a>, Shift>,
    right: i32,
    ends: &[(&Curve, (i32, i32))],
) -> Outcome<'a> {
    let wanted: Vec<i32> = ends.iter().map(|(_, end)| end.1).collect();
    let height = root.dim_in_pixel().1 as i32 - 50;
    let centre = Pos::new(HPos::Left, VPos::Center);
    for ((curve, end), at) in ends.iter().zip(spread(&wanted, NAME, height)) {
        // A line from where the curve ends to its name, which may have had to move.
        let lead = vec![*end, (right, end.1), (right + LEAD, at)];
        root.draw(&PathElement::new(lead, colour(curve.style)))?;
        let style = letters(if curve.style == 0 { 0 } else { INK }).pos(centre);
        root.draw(&Text::new(name(curve), (right + LEAD + 3, at), style))?;
    }
    Ok(())
}

/// Spreads labels that want to be at `wanted` (any order) so that they are `gap` apart and
/// inside 0..=`height`.
fn spread(wanted: &[i32], gap: i32, height: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|i| wanted[*i]);
    let mut places = wanted.to_vec();
    let mut least = 0;
    for i in &order {
        places[*i] = places[*i].max(least);
        least = places[*i] + gap;
    }
    let mut most = height.max(gap * (wanted.len() as i32 - 1));
    for i in order.iter().rev() {
        places[*i] = places[*i].min(most);
        most = places[*i] - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance() {
        let places = spread(&[100, 98, 99, 10], 15, 100);
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|w| w[1] - w[0] >= 15), "{places:?}");
        assert!(sorted[0] >= 0 && sorted[3] <= 100);
        assert!(
            places[1] < places[2] && places[2] < places[0],
            "the order is kept"
        );
        assert_eq!(places[3], 10, "what is alone stays");
    }

    #[test]
    fn every_colour_is_the_style_sheets() {
        let curve = |style| Curve {
            style,
            label: "a<b".to_owned(),
            points: vec![(1.0, 2.0), (2.0, 90.0)],
        };
        let axes = Axes {
            x: "x",
            y: "y",
            is_log: true,
            may_be_log: true,
        };
        let curves: Vec<Curve> = (0..9).map(curve).collect();
        let html = draw("x", "said", &axes, &curves)
            .expect("points")
            .into_string();
        assert!(!html.contains("\"#") && !html.contains("a<b") && html.contains("a&lt;b 90.0"));
        for name in COLOURS {
            assert!(html.contains(&format!("var(--{name})")), "{name}");
        }
    }

    #[test]
    fn a_single_point_has_axes() {
        let curve = Curve {
            style: 0,
            label: String::new(),
            points: vec![(5.0, 0.0)],
        };
        for is_log in [true, false] {
            let axes = Axes {
                x: "x",
                y: "y",
                is_log,
                may_be_log: true,
            };
            let html = draw("x", "said", &axes, std::slice::from_ref(&curve)).expect("a point");
            assert!(!html.into_string().contains("NaN"));
        }
    }
}
