//! Stacks as lines, and as a picture.

use super::{Profile, Sample};
use crate::checked::Budget;
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
    options.subtitle = Some(format!(
        "hakmem, a sample in {}",
        crate::summary::bytes(profile.interval)
    ));
    options.count_name = "bytes".into();
    options.direction = Direction::Straight;
    options.colors = flamegraph::color::Palette::Basic(flamegraph::color::BasicPalette::Mem);
    options.deterministic = true;
    // A name says most at its beginning.
    options.text_truncate_direction = TextTruncateDirection::Right;
    // In per cent: two pixels. The folded stacks have what is narrower.
    options.min_width = 0.2;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|e| format!("cannot draw the flame graph: {e}"))?;
    Ok(svg)
}
