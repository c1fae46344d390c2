//! Stacks as lines, and as a picture.

use super::{Profile, Sample, colours};
use crate::checked::Budget;
use crate::summary;
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Direction, TextTruncateDirection};
use std::collections::BTreeMap;

/// Which bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bytes {
    Live,
    Allocated,
}

impl Bytes {
    /// As file names have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Allocated => "allocated",
        }
    }

    fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Live => sample.live_bytes,
            Self::Allocated => sample.all_bytes,
        }
    }
}

/// Nearly white: the colours are the functions'.
const BACKGROUND: Color = Color {
    r: 250,
    g: 250,
    b: 248,
};

/// Bytes of all lines, before equal stacks are one.
const MOST: u64 = 32 << 20;

/// A line for each stack: its functions, outermost first, between semicolons, and the bytes.
/// The error is for the user to read.
pub fn folded(profile: &Profile, bytes: Bytes) -> Result<Vec<String>, String> {
    let mut stacks = BTreeMap::<String, f64>::new();
    let left = Budget::new(MOST, "bytes of names in its stacks");
    for sample in &profile.samples {
        let names = sample
            .stack
            .iter()
            .flat_map(|place| &place.frames)
            .map(|f| plain(&f.function));
        let names: Vec<_> = names.collect::<Vec<_>>().into_iter().rev().collect();
        let stack = if names.is_empty() {
            "[unknown]".into()
        } else {
            names.join(";")
        };
        let taken = left.take(stack.len() as u64);
        taken.map_err(|e| format!("the profile is not drawn: {e}"))?;
        *stacks.entry(stack).or_default() += bytes.of(sample);
    }
    let whole = stacks
        .into_iter()
        .map(|(stack, bytes)| (stack, bytes.round() as u64));
    Ok(whole
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(stack, bytes)| format!("{stack} {bytes}"))
        .collect())
}

/// Without what the form itself uses.
fn plain(name: &str) -> String {
    name.replace([';', '\n'], ":")
}

/// The flame graph of folded stacks: an SVG that needs nothing else. The error is for the user to read.
pub fn graph(
    lines: &[String],
    profile: &Profile,
    bytes: Bytes,
    title: &str,
) -> Result<Vec<u8>, String> {
    let mut options = flamegraph::Options::default();
    options.title = match bytes {
        Bytes::Live => format!("{title}: live bytes"),
        Bytes::Allocated => format!("{title}: bytes allocated"),
    };
    let all = lines.iter().filter_map(|line| line.rsplit_once(' '));
    let whole: u64 = all.filter_map(|(_, n)| n.parse::<u64>().ok()).sum();
    options.subtitle = Some(format!(
        "{} in all, estimated by a sample in {}",
        summary::bytes(whole),
        summary::bytes(profile.interval)
    ));
    options.count_name = "bytes".into();
    options.direction = Direction::Straight;
    let mut palette = palette(profile);
    options.palette_map = Some(&mut palette);
    options.bgcolors = Some(BackgroundColor::Flat(BACKGROUND));
    options.deterministic = true;
    // A name says most at its beginning.
    options.text_truncate_direction = TextTruncateDirection::Right;
    // In per cent: two pixels. The folded stacks have what is narrower.
    options.min_width = 0.2;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|e| format!("cannot draw the flame graph: {e}"))?;
    let svg = String::from_utf8(svg).map_err(|_| "the flame graph is no text")?;
    // A program's own file is the first in its memory.
    let file = profile
        .files
        .first()
        .and_then(|file| file.path.rsplit('/').next());
    let program = file.filter(|name| !name.is_empty()).unwrap_or(title);
    Ok(rooted(svg, program, whole).into_bytes())
}

/// All functions' colours.
fn palette(profile: &Profile) -> PaletteMap {
    let mut palette = PaletteMap::default();
    for place in profile.samples.iter().flat_map(|sample| &sample.stack) {
        let map = place.map.map_or("", |i| profile.files[i].path.as_str());
        for frame in &place.frames {
            let name = plain(&frame.function);
            if palette.get(&name).is_none() {
                palette.insert(name, colours::of(frame, map));
            }
        }
    }
    palette
}

/// The picture with the program's name at its root: in the tip, which is where the script in it takes the name from, and in the
/// text, for those who run no scripts.
fn rooted(svg: String, program: &str, whole: u64) -> String {
    let figures = format!("({} bytes, 100%)</title>", summary::grouped(whole));
    let Some((before, after)) = svg.split_once(&format!("<title>all {figures}")) else {
        return svg;
    };
    let name = program.replace('&', "&amp;").replace('<', "&lt;");
    let Some((rectangle, rest)) = after.split_once("></text>") else {
        return svg;
    };
    format!("{before}<title>{name} {figures}{rectangle}>{name}</text>{rest}")
}
