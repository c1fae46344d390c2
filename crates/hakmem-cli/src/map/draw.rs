//! The whole picture: head, rows, legend. Self-contained; it follows the reader's choice of light
//! or dark.

use super::model::Map;
use super::rows::{self, Grid, px, rect};
use super::totals::{self, Totals};
use crate::stat::table::percent;
use crate::summary::{bytes, counted};
use std::fmt::Write;

/// Rows of one column, and rows in all: what is beyond is only counted.
const ROWS: usize = 48;
const MOST_ROWS: usize = 384;
const WIDTH: f64 = 940.0;
const MARGIN: f64 = 20.0;
/// Of the text, at most, on average.
const CHARACTER: f64 = 6.9;

/// The colours for a light page and for a dark one.
struct Palette {
    ground: &'static str,
    text: &'static str,
    dim: &'static str,
    line: &'static str,
    empty: &'static str,
    kept: &'static str,
    large: &'static str,
    huge: &'static str,
    thp: &'static str,
    /// How light the sizes' colours are, in per cent.
    tone: u32,
}

const LIGHT: Palette = Palette {
    ground: "#fdfdfc",
    text: "#1d1f24",
    dim: "#6c717c",
    line: "#d9dbe0",
    empty: "#b9bcc6",
    kept: "#dcdfe6",
    large: "#7b6a58",
    huge: "#44607c",
    thp: "#b0379b",
    tone: 44,
};

const DARK: Palette = Palette {
    ground: "#17191d",
    text: "#e6e7ea",
    dim: "#989da8",
    line: "#33373f",
    empty: "#5b606b",
    kept: "#3a3f49",
    large: "#a8937c",
    huge: "#7fa3c8",
    thp: "#e27fd2",
    tone: 60,
};

const SHAPES: &str = "\
text{font:12px system-ui,sans-serif}.t{font-size:17px;font-weight:600}\
.l,.r,.wt{font:9px ui-monospace,monospace}.l,.n{text-anchor:end}\
.p{fill:none;stroke:currentColor;stroke-opacity:.45}.f{fill:currentColor;fill-opacity:.28}.o{fill:currentColor}\
.u{fill:none;stroke-dasharray:2 2}.w{fill-opacity:.35}.res{fill:none;stroke-opacity:.55}";

/// The rules that colour, of the page and of so many sizes. A colour is written where it is used:
/// not every renderer has variables, or `:hover`, for which librsvg leaves out a rule with all its
/// other selectors.
fn style(palette: &Palette, sizes: usize) -> String {
    let Palette {
        ground,
        text,
        dim,
        line,
        empty,
        kept,
        large,
        huge,
        thp,
        tone,
    } = palette;
    let css = format!(
        "text,.s{{fill:{text}}}.d,.l,.r{{fill:{dim}}}.h,.hb{{fill:{thp}}}.b,.wt{{fill:{ground}}}\
         .u{{stroke:{line}}}.e{{fill:{empty}}}.k{{fill:{kept}}}.lg{{fill:{large}}}.w,.wr{{fill:{huge}}}\
         .res{{stroke:{text}}}g:hover>.o,g:hover>.f,g:hover>.e,g:hover>.lg{{stroke:{text}}}"
    );
    css + &colours(sizes, *tone)
}

/// Text between tags or in an attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            c if c.is_control() => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

fn text(class: &str, x: f64, y: f64, text: &str) -> String {
    let (x, y, text) = (px(x), px(y), escape(text));
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n")
}

/// The picture.
pub fn svg(map: &Map) -> String {
    let totals = totals::of(map);
    let sizes: Vec<u32> = totals.classes.keys().copied().collect();
    let drawn = map.segments.len().min(MOST_ROWS);
    let columns = drawn.div_ceil(ROWS).clamp(1, 4);
    let per_column = drawn.div_ceil(columns);
    let grid = grid(columns);

    let mut y = MARGIN + 14.0;
    let mut body = head(map, &totals, &mut y);
    if map.segments.len() > drawn {
        let more = map.segments.len() - drawn;
        body += &text(
            "d",
            MARGIN,
            y,
            &format!("{more} rows more are not drawn, but counted above and below"),
        );
        y += 18.0;
    }
    let top = y;
    for (i, segment) in map.segments[..drawn].iter().enumerate() {
        let column =
            grid.left + (i / per_column.max(1)) as f64 * (WIDTH - 2.0 * MARGIN) / columns as f64;
        let y = top + (i % per_column.max(1)) as f64 * grid.row;
        let place = Grid {
            left: column,
            ..grid
        };
        body += &rows::row(map, segment, &sizes, place, y);
    }
    y = top + per_column as f64 * grid.row + 24.0;
    body += &legend(&mut y);
    body += &classes(&totals, &mut y);
    let (width, height) = (px(WIDTH), px(y + MARGIN));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\">\n\
         <title>{}</title>\n<style>{SHAPES}{}@media(prefers-color-scheme:dark){{{}}}</style>\n\
         <rect class=\"b\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n",
        escape(&name(map)),
        style(&LIGHT, sizes.len()),
        style(&DARK, sizes.len())
    )
}

fn grid(columns: usize) -> Grid {
    let width = (WIDTH - 2.0 * MARGIN) / columns as f64;
    let (label, right) = if columns > 2 {
        (8.0, 8.0)
    } else {
        (66.0, 46.0)
    };
    let slot = ((width - label - right) / 32.0).floor();
    let row: f64 = match columns {
        1 => 19.0,
        2 => 14.0,
        _ => 9.0,
    };
    Grid {
        left: MARGIN,
        row,
        slot,
        height: row - 4.0,
        label,
    }
}

/// A colour for each size that there is, from blue for the smallest to red.
fn colours(n: usize, tone: u32) -> String {
    let mut css = String::new();
    for i in 0..n {
        let at = if n > 1 {
            i as f64 / (n - 1) as f64
        } else {
            0.0
        };
        let hue = 245.0 - 245.0 * at;
        let _ = write!(css, ".c{i}{{color:hsl({hue:.0},66%,{tone}%)}}");
    }
    css
}

fn name(map: &Map) -> String {
    let when = map.when();
    format!("The heap of {}, process {}, {when}", map.program, map.pid)
}

/// Title, totals, and a bar that they add up in.
fn head(map: &Map, t: &Totals, y: &mut f64) -> String {
    let mut svg = text("t", MARGIN, *y, &name(map));
    *y += 20.0;
    let line = format!(
        "{} segments of {}, {} resident. A row is a segment, a box in it a slot of {}.",
        map.segments
            .iter()
            .map(|s| u64::from(s.huge.unwrap_or(1)))
            .sum::<u64>(),
        bytes(map.segment_bytes),
        bytes(t.resident),
        bytes(map.slot_bytes)
    );
    svg += &text("d", MARGIN, *y, &line);
    *y += 14.0;
    let parts = [
        ("in blocks", t.used, "o", "c0"),
        ("freed, in pages with blocks", t.freed, "f", "c0"),
        ("untouched, in pages", t.untouched, "p", "c0"),
        ("large blocks", t.large, "lg", ""),
        ("huge", t.huge, "wr", ""),
        ("kept", t.kept, "k", ""),
        ("free, not given back", t.empty, "e", ""),
        ("clean", t.clean, "u", ""),
    ];
    let all: u64 = parts.iter().map(|p| p.1).sum();
    let (mut x, width) = (MARGIN, WIDTH - 2.0 * MARGIN);
    for (name, part, class, colour) in parts {
        let length = width * part as f64 / all.max(1) as f64;
        if length >= 0.5 {
            let _ = write!(
                svg,
                "<g class=\"{colour}\"><title>{name}: {}</title>",
                bytes(part)
            );
            svg += &rect(class, x, *y, (length - 1.0).max(0.5), 14.0);
            svg += "</g>\n";
        }
        x += length;
    }
    *y += 22.0;
    let mut x = MARGIN;
    for (name, part, class, colour) in parts.into_iter().filter(|p| p.1 > 0) {
        let label = format!("{name} {}", bytes(part));
        let room = 16.0 + CHARACTER * label.chars().count() as f64;
        if x + room > WIDTH - MARGIN {
            x = MARGIN;
            *y += 17.0;
        }
        let _ = write!(svg, "<g class=\"{colour}\">");
        svg += &rect(class, x + 0.5, *y + 0.5, 10.0, 10.0);
        svg += "</g>";
        svg += &text("d", x + 16.0, *y + 10.0, &label);
        x += room + 8.0;
    }
    *y += 12.0;
    *y += 18.0;
    svg
}

/// What the boxes mean.
fn legend(y: &mut f64) -> String {
    let mut svg = String::new();
    let (height, mut x) = (16.0, MARGIN);
    let mut item = |draw: &dyn Fn(f64, f64) -> String, label: &str, y: &mut f64| {
        let room = 34.0 + CHARACTER * label.chars().count() as f64;
        if x + room > WIDTH - MARGIN {
            x = MARGIN;
            *y += 24.0;
        }
        svg += &draw(x, *y);
        svg += &text("d", x + 30.0, *y + 12.0, label);
        x += room + 6.0;
    };
    let page = |x: f64, y: f64| {
        format!(
            "<g class=\"c0\">{}{}{}</g>",
            rect("p", x + 0.5, y + 0.5, 23.0, height - 1.0),
            rect("f", x, y + 5.0, 24.0, 6.0),
            rect("o", x, y + 11.0, 24.0, 5.0)
        )
    };
    let plain = |class: &'static str| move |x: f64, y: f64| rect(class, x, y, 24.0, height);
    item(
        &page,
        "a page, from below: blocks out, freed blocks, untouched",
        y,
    );
    let few_used = move |x: f64, y: f64| {
        let (x1, y1) = (px(x), px(y));
        format!(
            "{}<path class=\"s\" d=\"M{x1} {y1}l5 0l-5 5z\"/>",
            page(x, y)
        )
    };
    item(&few_used, "few blocks used: parked, its holes go back", y);
    item(&plain("lg"), "large block", y);
    item(&plain("wr"), "huge block, pale where not resident", y);
    item(&plain("k"), "kept for what comes next", y);
    item(&plain("e"), "free, not given back yet", y);
    item(&plain("u"), "clean: no memory", y);
    let line =
        |x: f64, y: f64| format!("<path class=\"res\" d=\"M{} {}h16\"/>", px(x), px(y + 13.0));
    item(&line, "below a slot: how much of it is resident", y);
    let thp = |x: f64, y: f64| rect("hb", x + 11.0, y, 2.0, height);
    item(&thp, "asks for huge pages", y);
    let share = |x: f64, y: f64| text("r", x, y + 12.0, "12 %");
    item(&share, "ends a row: in use, of what is resident", y);
    *y += 40.0;
    svg
}

/// The sizes that have pages, each with its colour and how full its pages are.
fn classes(t: &Totals, y: &mut f64) -> String {
    const COLUMNS: usize = 3;
    let width = (WIDTH - 2.0 * MARGIN) / COLUMNS as f64;
    let mut svg = text(
        "d",
        MARGIN,
        *y,
        "Blocks by size: their pages, and the part of these that is in blocks",
    );
    *y += 10.0;
    let per_column = t.classes.len().div_ceil(COLUMNS).max(1);
    let widest = t.classes.values().map(|c| c.bytes).max().unwrap_or(1) as f64;
    for (i, (size, class)) in t.classes.iter().enumerate() {
        let (x, y) = (
            MARGIN + (i / per_column) as f64 * width,
            *y + (i % per_column) as f64 * 17.0,
        );
        let title = format!(
            "{}: {} in {}; {} in blocks, {} freed",
            bytes((*size).into()),
            bytes(class.bytes),
            counted(class.pages, "page", "pages"),
            bytes(class.used),
            bytes(class.freed)
        );
        let _ = write!(svg, "<g class=\"c{i}\"><title>{title}</title>");
        svg += &text("n", x + 58.0, y + 12.0, &bytes((*size).into()));
        let room = (width - 190.0) * class.bytes as f64 / widest;
        let share = |part: u64| room * part as f64 / class.bytes.max(1) as f64;
        svg += &rect("p", x + 66.5, y + 2.5, room.max(2.0), 11.0);
        svg += &rect(
            "f",
            x + 66.0 + share(class.used),
            y + 2.0,
            share(class.freed),
            12.0,
        );
        svg += &rect("o", x + 66.0, y + 2.0, share(class.used), 12.0);
        let label = format!(
            "{}, {}",
            bytes(class.bytes),
            percent(class.used, class.bytes)
        );
        svg += &text("d", x + 74.0 + room.max(2.0), y + 12.0, &label);
        svg += "</g>\n";
    }
    *y += per_column as f64 * 17.0;
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not every renderer knows variables and queries: without these the picture has all colours of
    /// the light page.
    #[test]
    fn colours_are_written_out() {
        let map: Map = serde_json::from_str(crate::map::model::tests::ONE).unwrap();
        let svg = svg(&map);
        assert!(!svg.contains("var("));
        let dark = svg.find("@media").unwrap();
        let plain = &svg[..dark];
        let Palette {
            large, kept, empty, ..
        } = LIGHT;
        for rule in [
            format!(".lg{{fill:{large}}}"),
            format!(".k{{fill:{kept}}}"),
            format!(".e{{fill:{empty}}}"),
            ".c0{color:hsl(245,66%,44%)}".to_owned(),
            format!(".b,.wt{{fill:{}}}", LIGHT.ground),
        ] {
            assert!(plain.contains(&rule), "{rule} in {plain}");
        }
        assert!(svg[dark..].contains(DARK.ground));
    }
}
