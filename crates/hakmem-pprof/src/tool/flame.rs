//! Stacks as lines, and as a picture.

use super::checked::Budget;
use super::colours::{self, Hues};
use super::numbers;
use super::profile::{Profile, Sample};
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Direction, TextTruncateDirection};
use std::collections::BTreeMap;

/// Which bytes folded stacks and a flame graph are of.
///
/// ```
/// assert_eq!(hakmem_pprof::Bytes::Live.name(), "live");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bytes {
    /// Those of blocks that are not freed.
    #[default]
    Live,
    /// Those of all blocks since the profile was switched on.
    Allocated,
}

impl Bytes {
    /// As file names have it: `live` or `allocated`.
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

/// The root is no function: grey.
const ROOT: Color = Color {
    r: 217,
    g: 218,
    b: 222,
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

/// The flame graph of folded stacks: an SVG that needs nothing else. `program` is the name that it
/// was started by, if that is known: its file may have another, behind a link. The error is for the
/// user to read.
pub fn graph(
    lines: &[String],
    profile: &Profile,
    bytes: Bytes,
    program: Option<&str>,
) -> Result<String, String> {
    let mut options = flamegraph::Options::default();
    // A program's own file is the first in its memory.
    let file = profile.files.first().map(|file| file.path.as_str());
    let paths = [program, file].into_iter().flatten();
    let mut names = paths.filter_map(|path| path.rsplit('/').next());
    let program = names.find(|name| !name.is_empty()).unwrap_or("all");
    options.title = match bytes {
        Bytes::Live => format!("{program}: live bytes"),
        Bytes::Allocated => format!("{program}: bytes allocated"),
    };
    let all = lines.iter().filter_map(|line| line.rsplit_once(' '));
    let whole: u64 = all.filter_map(|(_, n)| n.parse::<u64>().ok()).sum();
    options.subtitle = Some(format!(
        "{} in all, estimated by a sample in {}",
        numbers::bytes(whole),
        numbers::bytes(profile.interval)
    ));
    options.count_name = "bytes".into();
    options.direction = Direction::Straight;
    let mut palette = palette(profile);
    options.palette_map = Some(&mut palette);
    options.bgcolors = Some(BackgroundColor::Flat(BACKGROUND));
    options.deterministic = true;
    // A name says most at its beginning.
    options.text_truncate_direction = TextTruncateDirection::Right;
    // Of a letter, as a part of its height: as wide as in any usual font, so that no name is wider
    // than its box.
    options.font_width = 0.62;
    // In per cent: two pixels. The folded stacks have what is narrower.
    options.min_width = 0.2;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|e| format!("cannot draw the flame graph: {e}"))?;
    let svg = String::from_utf8(svg).map_err(|_| "the flame graph is no text")?;
    Ok(rooted(svg, program, whole))
}

/// All functions' colours.
fn palette(profile: &Profile) -> PaletteMap {
    let frames = profile.samples.iter().flat_map(|sample| {
        let places = sample.stack.iter();
        places.flat_map(move |place| {
            let map = place.map.map_or("", |i| profile.files[i].path.as_str());
            let frames = place.frames.iter();
            frames.map(move |frame| (frame, map, sample.all_bytes))
        })
    });
    let modules = frames.clone();
    let hues = Hues::new(modules.map(|(frame, map, bytes)| (colours::module(frame, map), bytes)));
    let mut palette = PaletteMap::default();
    palette.insert("", ROOT);
    for (frame, map, _) in frames {
        let name = plain(&frame.function);
        if palette.get(&name).is_none() {
            palette.insert(name, hues.of(frame, map));
        }
    }
    palette
}

/// The picture with the program's name at its root: in the tip, which is where the script in it
/// takes the name from, and in the text, for those who run no scripts.
fn rooted(svg: String, program: &str, whole: u64) -> String {
    let figures = format!("({} bytes, 100%)</title>", numbers::grouped(whole));
    let Some((before, after)) = svg.split_once(&format!("<title>all {figures}")) else {
        return svg;
    };
    let name = program.replace('&', "&amp;").replace('<', "&lt;");
    let Some((rectangle, rest)) = after.split_once("></text>") else {
        return svg;
    };
    format!("{before}<title>{name} {figures}{rectangle}>{name}</text>{rest}")
}

#[cfg(test)]
mod tests {
    use super::super::profile::File;
    use super::*;

    fn drawn(lines: &[String], program: Option<&str>) -> String {
        let file = File {
            start: 0,
            end: 0,
            offset: 0,
            path: "/opt/prog".into(),
            build_id: String::new(),
        };
        let profile = Profile {
            interval: 1,
            hides_none: false,
            samples: Vec::new(),
            files: vec![file],
        };
        graph(lines, &profile, Bytes::Live, program).unwrap()
    }

    #[test]
    fn the_title_and_the_root_name_the_program() {
        for (started, shown) in [
            (None, "prog"),
            (Some(""), "prog"),
            (Some("server"), "server"),
            (Some("./bin/server"), "server"),
        ] {
            let svg = drawn(&["main 1".into()], started);
            assert!(svg.contains(&format!(">{shown}: live bytes</text>")));
            assert!(svg.contains(&format!(">{shown}</text>")));
        }
    }

    /// The widest of the usual fonts has letters of 0.602 of their height.
    #[test]
    fn no_name_is_wider_than_its_box() {
        let name = "x".repeat(300);
        for percent in 5..100 {
            let lines = [format!("{name} {percent}"), format!("y {}", 100 - percent)];
            let svg = drawn(&lines, None);
            let letters = svg.split("\">xx").nth(1).unwrap();
            let letters = 2 + letters.find('<').unwrap();
            let width = 1180.0 * f64::from(percent) / 100.0;
            let needed = letters as f64 * 0.602 * 12.0;
            assert!(needed < width, "{letters} letters in {width} pixels");
        }
    }
}
