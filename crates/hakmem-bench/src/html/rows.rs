//! Charts of rows in plain HTML: a name, a bar or marks along a common axis, a figure.
//!
//! Text of a record goes into text nodes only, and the style sheet has all colours and sizes.

use super::palette::sign;
use maud::{Markup, html};

/// One row.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Whether it is about the allocator that the page is about.
    pub is_subject: bool,
    /// The figure as text.
    pub shown: String,
    /// Whether the figure stands out as a bad one.
    pub is_behind: bool,
    /// What is drawn between the two.
    pub drawn: Drawn,
}

/// What stands along the axis. A share is a place on it, from 0 to 1.
#[derive(Debug)]
pub enum Drawn {
    /// From the beginning to a share, in the style of an allocator.
    Bar { style: usize, share: f64 },
    /// Any number of marks, the topmost last.
    Marks(Vec<Mark>),
}

/// One mark.
#[derive(Debug)]
pub struct Mark {
    /// The style of its allocator.
    pub style: usize,
    /// Where it is; nowhere if it lies beyond the end.
    pub share: Option<f64>,
    /// What it says when pointed at.
    pub title: String,
}

/// A line across all rows.
#[derive(Debug)]
pub struct Line {
    /// How it looks.
    pub class: &'static str,
    /// Where it is.
    pub share: f64,
    /// What it says, above the rows or below.
    pub shown: String,
    pub below: bool,
}

/// Where a value lies between two others when equal ratios take equal room.
pub fn log_share(value: f64, low: f64, high: f64) -> f64 {
    ((value.max(low) / low).ln() / (high / low).ln()).clamp(0.0, 1.0)
}

/// The powers of `base` from `low` to `high`, both above zero.
pub fn powers(base: f64, low: f64, high: f64) -> impl Iterator<Item = f64> {
    let exponent = |v: f64| v.ln() / base.ln();
    let (first, last) = (exponent(low) - 1e-9, exponent(high) + 1e-9);
    (first.ceil() as i32..=last.floor() as i32).map(move |i| base.powi(i))
}

/// Draws the rows in the order given. `said` is for those who cannot see it; `id` is unique in the
/// page and our own.
pub fn draw(id: &str, said: &str, lines: &[Line], rows: &[Row]) -> Markup {
    html! {
        p.said id={ (id) "-d" } { (said) }
        div.rows.ruled[!lines.is_empty()] role="img" aria-labelledby={ (id) "-d" } {
            div.lines {
                @for line in lines {
                    div class={ "line " (line.class) } style=(left(line.share)) {
                        span.past[line.share > 0.5].below[line.below] { (line.shown) }
                    }
                }
            }
            @for row in rows {
                span.name.subject[row.is_subject] { (row.name) }
                (drawn(&row.drawn))
                span.value.behind[row.is_behind] { (row.shown) }
            }
        }
    }
}

fn left(share: f64) -> String {
    format!("left:{:.2}%", share * 100.0)
}

fn drawn(drawn: &Drawn) -> Markup {
    match drawn {
        Drawn::Bar { style, share } => html! {
            span.track { span class={ "bar a" (style) } style={ "width:" (format!("{:.2}%", share * 100.0)) } {} }
        },
        Drawn::Marks(marks) => {
            let beyond = || marks.iter().filter(|m| m.share.is_none());
            html! {
                span.track.marks {
                    @for mark in marks {
                        @if let Some(share) = mark.share {
                            span.at style=(left(share)) { (sign(mark.style, &mark.title)) }
                        }
                    }
                    @if beyond().next().is_some() {
                        span.beyond { @for mark in beyond() { (sign(mark.style, &mark.title)) } "›" }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_take_equal_room() {
        assert!((log_share(1.0, 0.25, 4.0) - 0.5).abs() < 1e-12);
        assert_eq!(
            (log_share(-1.0, 0.25, 4.0), log_share(99.0, 0.25, 4.0)),
            (0.0, 1.0)
        );
        let marked = |base, low, high| powers(base, low, high).collect::<Vec<_>>();
        assert_eq!(marked(2.0, 0.25, 4.0), [0.25, 0.5, 1.0, 2.0, 4.0]);
        assert_eq!(marked(10.0, 900.0, 5100.0), [1e3]);
    }

    #[test]
    fn text_cannot_become_markup() {
        let mark = Mark {
            style: 0,
            share: None,
            title: "</title><b>".to_owned(),
        };
        let row = Row {
            name: "a<b".to_owned(),
            is_subject: false,
            shown: "<script>\"&".to_owned(),
            is_behind: false,
            drawn: Drawn::Marks(vec![mark]),
        };
        let html = draw("x", "</p><b>", &[], &[row]).into_string();
        assert!(!html.contains("<script") && !html.contains("<b>") && html.contains("a&lt;b"));
    }
}
