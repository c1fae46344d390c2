//! Pieces that the charts share.
//!
//! A chart is as wide as the page lets it be: positions from left to right are percentages, those from top to bottom are
//! pixels, so that text keeps its size on a phone. What stands beside the plot hangs out of it into the padding of the
//! figure. Text of a record goes into text nodes only: this drawing library escapes no quotes in attributes.

use super::palette::shape;
use maud::{Markup, PreEscaped};
use svg::node;
use svg::node::element::{Description, Group, Line, Path, SVG, Text, Title};

/// A share of the width.
pub fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// An empty chart with a name and a description for those who cannot see it. `id` is unique in the page and our own.
pub fn chart(id: &str, height: f64, title: &str, description: &str) -> SVG {
    SVG::new()
        .set("class", "chart")
        .set("role", "img")
        .set("width", "100%")
        .set("height", height)
        .set("aria-labelledby", format!("{id}-t {id}-d"))
        .add(Title::new(title).set("id", format!("{id}-t")))
        .add(description_of(id, description))
}

fn description_of(id: &str, text: &str) -> Description {
    Description::new()
        .set("id", format!("{id}-d"))
        .add(node::Text::new(text))
}

/// Text at a point; `class` says how it is anchored.
pub fn text(class: &str, x: impl Into<node::Value>, y: f64, content: &str) -> Text {
    Text::new(content)
        .set("class", class)
        .set("x", x)
        .set("y", y)
}

/// Tells the style sheet how many letters the names beside a plot have, so that it leaves room for them; beyond a bound
/// they hang over the edge.
pub fn letters(longest: usize) -> String {
    format!("--letters:{}", longest.clamp(6, 24))
}

/// A line that goes straight down.
pub fn upright(class: &str, share: f64, top: f64, bottom: f64) -> Line {
    line(class, (percent(share), top), (percent(share), bottom))
}

/// A line.
pub fn line(class: &str, from: (String, f64), to: (String, f64)) -> Line {
    Line::new()
        .set("class", class)
        .set("x1", from.0)
        .set("y1", from.1)
        .set("x2", to.0)
        .set("y2", to.1)
}

/// Marks with a name that shows when they are pointed at. `shift` moves it by pixels.
pub fn mark(style: usize, share: f64, y: f64, shift: f64, title: &str) -> SVG {
    let path = Path::new()
        .set("class", format!("mark a{style}"))
        .set("d", shape(style));
    let group = Group::new()
        .set("transform", format!("translate({shift} 0)"))
        .add(Title::new(title))
        .add(path);
    // Only an inner image can stand at a percentage and have an outline in pixels.
    SVG::new()
        .set("x", percent(share))
        .set("y", y)
        .set("overflow", "visible")
        .add(group)
}

/// The mark by itself, for a legend.
pub fn sign(style: usize) -> Markup {
    let image = SVG::new()
        .set("class", "sign")
        .set("viewBox", "-8 -8 16 16")
        .set("width", 16)
        .set("height", 16)
        .set("aria-hidden", "true")
        .add(
            Path::new()
                .set("class", format!("mark a{style}"))
                .set("d", shape(style)),
        );
    embed(&image)
}

/// An image as part of a page. HTML knows the name space by itself, and without it the page has no address in it.
pub fn embed(image: &SVG) -> Markup {
    let text = image.to_string();
    PreEscaped(text.replace(" xmlns=\"http://www.w3.org/2000/svg\"", ""))
}

/// A drawing in its own coordinates, 1000 wide, stretched over the plot; its lines keep their width.
pub fn stretched(height: f64, children: Vec<Path>) -> SVG {
    let image = SVG::new()
        .set("x", 0)
        .set("y", 0)
        .set("width", "100%")
        .set("height", height)
        .set("viewBox", format!("0 0 1000 {height}"))
        .set("preserveAspectRatio", "none")
        .set("overflow", "visible");
    children.into_iter().fold(image, SVG::add)
}

/// Spreads labels that want to be at `wanted` (any order) so that they are `gap` apart and inside 0..=`height`.
pub fn spread(wanted: &[f64], gap: f64, height: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut places = wanted.to_vec();
    let mut least = 0.0;
    for i in &order {
        places[*i] = places[*i].max(least);
        least = places[*i] + gap;
    }
    let mut most = height.max(gap * (wanted.len() as f64 - 1.0));
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
        let places = spread(&[100.0, 98.0, 99.0, 10.0], 15.0, 100.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(
            sorted.windows(2).all(|w| w[1] - w[0] >= 15.0 - 1e-9),
            "{places:?}"
        );
        assert!(sorted[0] >= 0.0 && sorted[3] <= 100.0);
        assert!(
            places[1] < places[2] && places[2] < places[0],
            "the order is kept"
        );
        assert_eq!(places[3], 10.0, "what is alone stays");
    }

    #[test]
    fn text_cannot_become_markup() {
        let image = chart("x", 10.0, "<script>\"&", "</desc><b>").add(text("l", 0, 1.0, "a<b"));
        let html = embed(&image).into_string();
        assert!(!html.contains("<script") && !html.contains("<b>") && html.contains("a&lt;b"));
    }
}
