//! Resident memory and maps over time, as one image that stands by itself.

use super::flat::Flatness;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::io;

/// Small, with large letters: it is shown at half that width on a telephone.
const SIZE: (u32, u32) = (720, 640);
const FONT: &str = "sans-serif";
/// Dark on light: the curve is thin, the medians are thick, so that no colour is needed to tell
/// them apart.
const CURVE: RGBColor = RGBColor(9, 105, 218);
const MEDIAN: RGBColor = RGBColor(150, 56, 0);
const GRID: RGBColor = RGBColor(216, 222, 228);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Outcome<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// One figure over time.
pub struct Plot {
    /// What it shows, with the unit.
    pub title: &'static str,
    /// Second and value.
    pub points: Vec<(u64, f64)>,
    /// The medians; none with too little time.
    pub flatness: Option<Flatness>,
}

impl Plot {
    /// Of these points, of which those up to second `settled` are the start-up.
    pub fn new(title: &'static str, points: Vec<(u64, f64)>, settled: u64) -> Self {
        let flatness = Flatness::new(&points, settled);
        Self {
            title,
            points,
            flatness,
        }
    }

    /// Whether it stays where it is.
    pub fn is_flat(&self) -> bool {
        self.flatness.as_ref().is_some_and(Flatness::is_flat)
    }
}

/// The text of an image of plots over the same time, one below the other; `settled` is when the
/// stretches begin.
pub fn draw(heading: &str, settled: u64, seconds: u64, plots: &[Plot]) -> io::Result<String> {
    let mut image = String::new();
    all(&mut image, heading, settled, seconds, plots).map_err(io::Error::other)?;
    Ok(image)
}

fn all<'a>(
    image: &'a mut String,
    heading: &str,
    settled: u64,
    seconds: u64,
    plots: &[Plot],
) -> Outcome<'a> {
    let root = SVGBackend::with_string(image, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let below = root.margin(4, 4, 4, 16).titled(heading, (FONT, 24))?;
    for (area, plot) in below.split_evenly((plots.len(), 1)).iter().zip(plots) {
        one(area, plot, settled, seconds)?;
    }
    root.present()
}

fn one<'a>(area: &Area<'a>, plot: &Plot, settled: u64, seconds: u64) -> Outcome<'a> {
    let highest = plot.points.iter().map(|p| p.1).fold(1.0, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(area)
        .caption(plot.title, (FONT, 20))
        .margin_top(12)
        .x_label_area_size(46)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..minutes(seconds), 0.0..highest)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .y_labels(6)
        .x_desc("minutes")
        .x_label_formatter(&|minute| format!("{minute:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .label_style((FONT, 18))
        .draw()?;
    let points = plot.points.iter().map(|p| (minutes(p.0), p.1));
    chart.draw_series(LineSeries::new(points, CURVE))?;
    let begin = [(minutes(settled), 0.0), (minutes(settled), highest)];
    chart.draw_series(DashedLineSeries::new(begin, 4, 3, BLACK.into()))?;
    let centre = Pos::new(HPos::Center, VPos::Center);
    for (first, last, middle) in plot.flatness.iter().flat_map(|f| &f.windows) {
        let (from, to) = (minutes(*first), minutes(*last));
        let line = vec![(from, *middle), (to, *middle)];
        chart.draw_series([PathElement::new(line, MEDIAN.stroke_width(4))])?;
        let style = (FONT, 20).into_font().color(&MEDIAN).pos(centre);
        let text = format!("{middle:.0}");
        // Far below the curve, which would make the number illegible.
        let place = ((from + to) / 2.0, *middle / 2.0);
        chart.draw_series([Text::new(text, place, style)])?;
    }
    Ok(())
}

fn minutes(second: u64) -> f64 {
    second as f64 / 60.0
}
