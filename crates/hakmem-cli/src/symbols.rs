//! Names in reports of errors: what lies at the addresses of their stacks.
//!
//! hakmem writes a frame as `#1 0x55d0c0de (/usr/bin/prog+0x1234)`: the file, and the address that
//! the file is linked for. Here it becomes the functions there, with file and line, as far as the
//! file's debug information and symbols tell.

use crate::checked;
use crate::profile::confined;
use hakmem_pprof::tool::module::Named;
use hakmem_pprof::tool::symbols::Frame;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// Files that are looked into.
const FILES: usize = 256;

/// A frame in a line of a report.
struct Shown<'a> {
    /// The line up to the address.
    start: &'a str,
    file: &'a str,
    linked: u64,
    /// The stack is of code that a fault interrupted: its first address is no return address.
    interrupted: bool,
}

impl<'a> Shown<'a> {
    fn read(line: &'a str, interrupted: bool) -> Option<Self> {
        let (start, rest) = line.split_once(" 0x")?;
        if !start
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .ends_with('#')
        {
            return None;
        }
        let (_, place) = rest.split_once(" (")?;
        let (file, linked) = place.strip_suffix(')')?.rsplit_once("+0x")?;
        Some(Self {
            start,
            file,
            linked: u64::from_str_radix(linked, 16).ok()?,
            interrupted,
        })
    }

    /// The address that is looked up. A return address may be that of the next line.
    fn looked_up(&self) -> u64 {
        let is_exact = self.interrupted && self.start.ends_with("#0");
        self.linked - u64::from(!is_exact && self.linked > 0)
    }
}

/// The lines, each with its frame, if it is one.
fn lines(text: &str) -> impl Iterator<Item = (&str, Option<Shown<'_>>)> {
    let mut interrupted = false;
    text.lines().map(move |line| {
        let frame = Shown::read(line, interrupted);
        if frame.is_none() {
            interrupted = is_fault(line);
        }
        (line, frame)
    })
}

/// True for the first line of a report of a fault. Other stacks are those of calls.
fn is_fault(line: &str) -> bool {
    [
        "Use After Free",
        "Buffer Overflow",
        "Buffer Underflow",
        "Wild access",
    ]
    .iter()
    .any(|what| line.contains(&format!("hakmem: {what} at 0x")))
}

/// The text of reports, with names.
pub fn named(text: &str) -> String {
    let mut wanted: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for frame in lines(text).filter_map(|(_, frame)| frame) {
        if wanted.len() < FILES || wanted.contains_key(frame.file) {
            wanted
                .entry(frame.file)
                .or_default()
                .insert(frame.looked_up());
        }
    }
    let look = |(file, addresses): (_, BTreeSet<u64>)| {
        let addresses: Vec<_> = addresses.into_iter().collect();
        let Named { frames, .. } = confined::of_linked(Path::new(file), &addresses);
        (
            file,
            addresses
                .into_iter()
                .zip(frames)
                .collect::<BTreeMap<_, _>>(),
        )
    };
    let known: BTreeMap<_, _> = wanted.into_iter().map(look).collect();
    let mut all = String::new();
    for (line, frame) in lines(text) {
        let found = frame
            .as_ref()
            .and_then(|frame| known.get(frame.file)?.get(&frame.looked_up()))
            .filter(|frames| !frames.is_empty());
        match (frame, found) {
            (Some(frame), Some(found)) => {
                for (i, function) in found.iter().enumerate() {
                    let start = if i == 0 { frame.start } else { "            " };
                    let line = format!("{start} {}", said(function, frame.file));
                    let _ = writeln!(all, "{}", checked::text(&line, 4096));
                }
            }
            _ => {
                let _ = writeln!(all, "{}", checked::text(line, 512));
            }
        }
    }
    all
}

fn said(frame: &Frame, file: &str) -> String {
    match &frame.file {
        Some(source) => format!("{} ({source}:{})", frame.function, frame.line),
        None => format!("{} ({file})", frame.function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_from_other_lines() {
        let frame = Shown::read("hakmem:     #12 0x55d (/usr/bin/a (b)+0x1f)", true).unwrap();
        assert_eq!(
            (frame.file, frame.linked, frame.looked_up()),
            ("/usr/bin/a (b)", 0x1f, 0x1e)
        );
        for line in [
            "",
            "hakmem: double free of 0x1234",
            "#1 0x55d",
            "a 0x1 (b+0x2)",
            "#1 0x5 (/x+0xzz)",
        ] {
            assert!(Shown::read(line, false).is_none(), "{line}");
        }
        let text = "hakmem: x\nhakmem:     #0 0x1 (/no/such/file+0x1)\n";
        assert_eq!(named(text), text);
    }

    /// A fault leaves the address of the access, and a call that of what comes after it.
    #[test]
    fn return_addresses_are_of_their_calls() {
        const FRAMES: &str = "hakmem:     #0 0x55d (/x+0x1f)\nhakmem:     #1 0x55d (/x+0x2f)\n";
        for (head, first) in [
            (
                "Use After Free at 0x7e (0 bytes into a 40-byte allocation at 0x7e)",
                0x1f,
            ),
            ("Wild access at 0x7e here:", 0x1f),
            ("Buffer Overflow, found by the free, at 0x7e", 0x1e),
            ("Double Free at 0x7e", 0x1e),
            ("0x7e was deallocated by thread 7 here:", 0x1e),
            ("thread 7 of process 7 (a):", 0x1e),
        ] {
            let text = format!("hakmem: {head}\n{FRAMES}");
            let frames = lines(&text).filter_map(|(_, frame)| frame);
            let looked_up: Vec<_> = frames.map(|frame| frame.looked_up()).collect();
            assert_eq!(looked_up, [first, 0x2e], "{head}");
        }
    }
}
