//! Small charts of one figure per allocator: bars, or marks on a logarithmic axis where bars would
//! be too unlike.

use super::number::tick;
use super::rows::{self, Drawn, Line, Mark, Row, log_share, powers};
use maud::Markup;

/// Bars are drawn as long as the longest is at most so many times the shortest.
const MOST_UNLIKE: f64 = 25.0;

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

/// Draws them in the order given; `title` and the figures are what those hear who cannot see them.
pub fn draw(id: &str, title: &str, strips: &[Strip], limit: Option<&Limit>) -> Markup {
    let all = || strips.iter().map(|s| s.value).chain(limit.map(|l| l.value));
    let high = all().fold(0.0, f64::max);
    let low = all().filter(|v| *v > 0.0).fold(high, f64::min);
    let is_log = high > low * MOST_UNLIKE;
    let end = if high > 0.0 { high * 1.02 } else { 1.0 };
    let share = |value: f64| match is_log {
        true => log_share(value, low * 0.8, high * 1.1),
        false => (value / end).clamp(0.0, 1.0),
    };
    let line = |class, value, shown| Line {
        class,
        share: share(value),
        shown,
        below: class == "grid",
    };
    let tens = powers(10.0, low * 0.8, high * 1.1).filter(|_| is_log);
    let mut lines: Vec<Line> = tens.map(|v| line("grid", v, tick(v))).collect();
    lines.extend(limit.map(|l| line("limit", l.value, l.shown.clone())));
    let row = |s: &Strip| Row {
        name: s.label.clone(),
        is_subject: s.style == 0,
        shown: s.shown.clone(),
        is_behind: false,
        drawn: match is_log {
            true => Drawn::Marks(vec![Mark {
                style: s.style,
                share: Some(share(s.value)),
                title: s.shown.clone(),
            }]),
            false => Drawn::Bar {
                style: s.style,
                share: share(s.value),
            },
        },
    };
    let said: Vec<String> = strips
        .iter()
        .map(|s| format!("{} {}", s.label, s.shown))
        .collect();
    let rows: Vec<Row> = strips.iter().map(row).collect();
    rows::draw(id, &format!("{title}: {}", said.join(", ")), &lines, &rows)
}
