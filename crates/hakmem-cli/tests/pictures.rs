//! The pictures as librsvg draws them, which runs no script and knows less of CSS than a browser:
//! what it leaves out is black, or is not there.

use crate::common::*;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

type Pixel = [u8; 3];

/// A picture's pixels, in rows.
pub struct Drawn {
    width: usize,
    pixels: Vec<Pixel>,
}

impl Drawn {
    /// `svg` as rsvg-convert draws it on black. `None` where that is not installed: a line says so.
    pub fn new(svg: &Path) -> Option<Self> {
        let mut command = Command::new("rsvg-convert");
        let output = match command.args(["-b", "black"]).arg(svg).output() {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                println!("skipped: rsvg-convert is not installed");
                return None;
            }
            output => output.unwrap(),
        };
        assert!(output.status.success(), "{}", stderr(&output));
        let mut reader = png::Decoder::new(std::io::Cursor::new(output.stdout))
            .read_info()
            .unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!(info.bit_depth, png::BitDepth::Eight);
        let samples = info.color_type.samples();
        assert!(samples >= 3, "{:?}", info.color_type);
        let pixels = bytes[..info.buffer_size()].chunks_exact(samples);
        let pixels: Vec<_> = pixels.map(|p| [p[0], p[1], p[2]]).collect();
        let width = info.width as usize;
        assert_eq!(pixels.len(), width * info.height as usize);
        Some(Self { width, pixels })
    }

    /// Of the page, as far as a corner shows it.
    fn ground(&self) -> Pixel {
        self.pixels[0]
    }

    /// The pixels of a box, as far as they are in the picture.
    fn part(&self, x: f64, y: f64, width: f64, height: f64) -> Vec<Pixel> {
        let rows = (y.max(0.0) as usize)..((y + height).ceil() as usize);
        let columns = (x.max(0.0) as usize)..((x + width).ceil() as usize).min(self.width);
        let at = rows.flat_map(|row| columns.clone().map(move |column| (row, column)));
        at.filter_map(|(row, column)| self.pixels.get(row * self.width + column))
            .copied()
            .collect()
    }

    /// The page is light, some of it is bare, and at most so many pixels are black.
    fn is_on_light_ground(&self, colours: usize, most_black: usize) {
        let ground = self.ground();
        assert!(luminance(ground) > 0.9, "a page of {ground:?}");
        let bare = self.pixels.iter().filter(|p| **p == ground).count();
        let black = self.pixels.iter().filter(|p| luminance(**p) < 0.008);
        let (all, black) = (self.pixels.len(), black.count());
        assert!(bare > all / 20, "{bare} of {all} pixels are the page's");
        assert!(black <= most_black, "{black} of {all} pixels are black");
        // Those of lines and letters are of more than a few pixels, too.
        let mut counts = BTreeMap::<Pixel, usize>::new();
        for pixel in &self.pixels {
            *counts.entry(*pixel).or_default() += 1;
        }
        let found = counts.values().filter(|n| **n >= 20).count();
        assert!(found >= colours, "{found} colours, not {colours}");
    }

    /// How well letters from `x` on, above the line `y`, stand out from what is behind them.
    fn contrast(&self, x: f64, y: f64, behind: Pixel) -> f64 {
        let letters = self.part(x, y - 9.0, 24.0, 10.0);
        let of = letters.iter().map(|p| contrast(*p, behind));
        of.fold(1.0, f64::max)
    }
}

/// As WCAG defines it, from 0 to 1.
fn luminance(pixel: Pixel) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    };
    let [r, g, b] = pixel.map(linear);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

/// As WCAG defines it, from 1 to 21.
fn contrast(a: Pixel, b: Pixel) -> f64 {
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    (a / b).max(b / a)
}

fn distance(a: Pixel, b: Pixel) -> u8 {
    let parts = a.iter().zip(b);
    parts.map(|(a, b)| a.abs_diff(b)).max().unwrap()
}

fn parsed(svg: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    Document::parse_with_options(svg, options).expect("well-formed XML")
}

fn number(node: Node, name: &str) -> f64 {
    let value = node.attribute(name).unwrap_or_else(|| panic!("no {name}"));
    value.parse().unwrap()
}

/// Where each stroke of a path begins, and how far it goes to the right.
fn strokes(path: &str) -> Vec<(f64, f64, f64)> {
    let strokes = path.split('M').filter(|stroke| stroke.contains('h'));
    let numbers = strokes.map(|stroke| {
        let numbers = stroke.split([' ', 'h', 'v', 'l', 'z']);
        let mut numbers = numbers.filter_map(|n| n.parse::<f64>().ok());
        let mut next = || numbers.next().unwrap();
        (next(), next(), next())
    });
    numbers.collect()
}

/// Every kind of part leaves a mark on the page, and the letters can be read.
pub fn map_can_be_read(svg: &Path) {
    let Some(drawn) = Drawn::new(svg) else {
        return;
    };
    // Its letters are not quite black.
    drawn.is_on_light_ground(12, 0);
    let svg = std::fs::read_to_string(svg).unwrap();
    let document = parsed(&svg);
    let ground = drawn.ground();
    let mut kinds = BTreeSet::new();
    for path in document.descendants().filter(|n| n.has_tag_name("path")) {
        let class = path.attribute("class").unwrap();
        for (x, y, width) in strokes(path.attribute("d").unwrap()) {
            if width < 4.0 {
                continue;
            }
            kinds.insert(class);
            let mark = drawn.part(x, y - 1.0, width, 2.0);
            let seen = mark.iter().any(|p| distance(*p, ground) >= 16);
            assert!(seen, "{class} at {x}, {y} cannot be seen");
        }
    }
    for kind in ["p", "o", "lg", "wr", "u", "res"] {
        assert!(kinds.contains(kind), "{kind} in {kinds:?}");
    }
    let mut texts = 0;
    for text in document.descendants().filter(|n| n.has_tag_name("text")) {
        let least = match text.attribute("class").unwrap() {
            "t" => 7.0,
            // Their thin lines are drawn paler than their colour is.
            "d" => 3.0,
            _ => continue,
        };
        let of = drawn.contrast(number(text, "x"), number(text, "y"), ground);
        assert!(of >= least, "{:?} has a contrast of {of}", text.text());
        texts += 1;
    }
    assert!(texts > 15, "{texts} texts");
}

/// Every frame has its colour, that of `root` grey, and its name can be read on that.
pub fn flames_can_be_read(svg: &Path, root: &str) {
    let Some(drawn) = Drawn::new(svg) else {
        return;
    };
    drawn.is_on_light_ground(6, drawn.pixels.len() / 20);
    let svg = std::fs::read_to_string(svg).unwrap();
    let document = parsed(&svg);
    let frames = document
        .descendants()
        .find(|n| n.attribute("id") == Some("frames"));
    let frames = frames.unwrap();
    let (left, room) = (number(frames, "x"), number(frames, "width"));
    let share = |node: Node, name| {
        let value = node.attribute(name).unwrap().strip_suffix('%').unwrap();
        value.parse::<f64>().unwrap() / 100.0 * room
    };
    let mut names = 0;
    for rect in frames.descendants().filter(|n| n.has_tag_name("rect")) {
        let (x, y) = (left + share(rect, "x"), number(rect, "y"));
        let (width, height) = (share(rect, "width"), number(rect, "height"));
        let name = rect.next_sibling_element().unwrap();
        let name = name.text().unwrap_or("");
        if width < 8.0 {
            continue;
        }
        let fill = rect.attribute("fill").unwrap();
        let fill = fill.strip_prefix("rgb(").unwrap().strip_suffix(')');
        let parts = fill.unwrap().split(',').map(|n| n.parse().unwrap());
        let fill: Pixel = parts.collect::<Vec<_>>().try_into().unwrap();
        // A name begins behind the edge. Only an underscore reaches it, in a row or two.
        let edge = drawn.part(x + 1.0, y + 3.0, 1.0, height - 6.0);
        if name == root {
            assert!(distance(fill, [fill[0]; 3]) < 8, "{name} is {fill:?}");
        }
        let bare = edge.iter().filter(|p| distance(**p, fill) <= 2).count();
        assert!(bare * 4 >= edge.len() * 3, "{name}: {edge:?}, not {fill:?}");
        if !name.is_empty() {
            let of = drawn.contrast(x + 2.0, y + height - 4.0, fill);
            assert!(of >= 4.5, "{name} has a contrast of {of}");
            names += 1;
            let beyond = drawn.part(x + width + 1.0, y + 3.0, 1.0, height - 6.0);
            let free = beyond.iter().all(|p| luminance(*p) > 0.15);
            assert!(free, "{name} is wider than its box");
        }
    }
    assert!(names >= 4, "{names} names");
    let title = document
        .descendants()
        .find(|n| n.attribute("id") == Some("title"));
    let y = number(title.unwrap(), "y");
    // It is in the middle.
    let middle = drawn.width as f64 / 2.0 - 12.0;
    assert!(drawn.contrast(middle, y, drawn.ground()) >= 7.0);
}
