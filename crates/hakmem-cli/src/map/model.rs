//! The heap at one moment, slot by slot: as the library writes it (`docs/formats.md` has the
//! form), or as seen from outside.

use crate::checked::{self, Lines, total};
use crate::view::segments::{self, Body, Resident, SEGMENT_BYTES, SLOT_BYTES, Use};
use crate::view::{Target, Trouble, Usage, text_of};
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead};

/// The version of the form that this program reads and writes.
const SCHEMA: u32 = 1;
/// Bytes of a map, segments in it, slots of a segment, sizes of blocks.
pub const LINE: usize = 32 << 20;
const MOST_SEGMENTS: usize = 1 << 18;
const MOST_SLOTS: u64 = 64;
const MOST_SIZES: usize = 64;
/// No address is larger, and no sum of what lies in memory.
const MOST_BYTES: u64 = 1 << 56;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Map {
    pub schema: u32,
    pub kind: String,
    pub event: String,
    pub pid: u32,
    pub program: String,
    pub slot_bytes: u64,
    pub segment_bytes: u64,
    #[serde(deserialize_with = "bounded")]
    pub segments: Vec<Segment>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Segment {
    /// In hexadecimal.
    pub address: String,
    pub thp: bool,
    /// For a huge block, its segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge: Option<u32>,
    /// For a huge block, the segments behind that are kept for it to grow into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<u32>,
    /// For a huge block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Pieces of 4 KiB that are resident, by slot; none where the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<Box<[u8]>>,
    #[serde(default)]
    pub slots: Box<[Slot]>,
    /// For a huge block, the name of the heap that the program made, if one has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heap: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The number of the first one in its segment.
    pub slot: u16,
    pub span: u16,
    #[serde(flatten)]
    pub content: Content,
    /// The name of the heap that the program made, if one has the page or the large block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heap: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "use", rename_all = "lowercase")]
pub enum Content {
    Clean,
    Dirty,
    Kept,
    Large,
    Page(Page),
}

/// A page of blocks; see the library's form for what they mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub size: u32,
    pub blocks: u32,
    pub carved: u32,
    pub used: u32,
    pub state: PageState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageState {
    Queue,
    Full,
    Retired,
    Candidate,
    Parked,
    Program,
    #[serde(other)]
    Other,
}

/// The segments of a map, as many as are drawn.
fn bounded<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Segment>, D::Error> {
    struct Segments;
    impl<'de> Visitor<'de> for Segments {
        type Value = Vec<Segment>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("segments")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(segment) = from.next_element()? {
                if all.len() == MOST_SEGMENTS {
                    return Err(Error::custom("more segments than are drawn"));
                }
                all.push(segment);
            }
            Ok(all)
        }
    }
    from.deserialize_seq(Segments)
}

impl Map {
    /// The moment, in words.
    pub fn when(&self) -> &str {
        match self.event.as_str() {
            "exit" => "at its end",
            "outside" => "while it ran",
            "signal" => "at a signal",
            "call" => "when it asked",
            other => other,
        }
    }

    /// Parses one map.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let mut map: Self = serde_json::from_str(line)?;
        match map.check() {
            Ok(()) => Ok(map),
            Err(why) => Err(Error::custom(why)),
        }
    }

    /// What is drawn by it holds of it; what could be of another moment is made to fit.
    fn check(&mut self) -> Result<(), &'static str> {
        if self.schema != SCHEMA || self.kind != "map" {
            return Err("not a map, or of another schema");
        }
        (self.program, self.event) = (checked::name(&self.program), checked::name(&self.event));
        let slots = self.segment_bytes.checked_div(self.slot_bytes).unwrap_or(0);
        if !(1..=MOST_SLOTS).contains(&slots)
            || !(4096..=1 << 24).contains(&self.slot_bytes)
            || !self.segment_bytes.is_multiple_of(self.slot_bytes)
        {
            return Err("slots that do not fit their segments");
        }
        let (mut sizes, mut all) = (BTreeSet::new(), 0u64);
        for segment in &mut self.segments {
            let address = segment.address.trim_start_matches("0x");
            if u64::from_str_radix(address, 16).is_err() || segment.address.len() > 18 {
                return Err("an address that is none");
            }
            let own = u64::from(segment.huge.unwrap_or(1)) * self.segment_bytes;
            let reserve = u64::from(segment.reserve.unwrap_or(0)) * self.segment_bytes;
            all = total([all, own, reserve]);
            if all > MOST_BYTES {
                return Err("more memory than there can be");
            }
            segment.resident_bytes = segment.resident_bytes.map(|n| n.min(own));
            if segment
                .resident
                .as_ref()
                .is_some_and(|r| r.len() as u64 > slots)
            {
                return Err("more resident slots than a segment has");
            }
            let mut end = 0;
            for slot in &mut segment.slots {
                // What does not lie in its segment, or not behind the one before, would be drawn
                // over another.
                let behind = u64::from(slot.slot) + u64::from(slot.span);
                if slot.span == 0 || u64::from(slot.slot) < end || behind > slots {
                    return Err("a slot that is not in its segment");
                }
                end = behind;
                if let Content::Page(page) = &mut slot.content {
                    let bytes = u64::from(slot.span) * self.slot_bytes;
                    let fit = bytes.checked_div(page.size.into());
                    let fit = fit.ok_or("blocks without a size")?;
                    page.blocks = page.blocks.min(u32::try_from(fit).unwrap_or(u32::MAX));
                    page.carved = page.carved.min(page.blocks);
                    page.used = page.used.min(page.carved);
                    sizes.insert(page.size);
                    if sizes.len() > MOST_SIZES {
                        return Err("more sizes of blocks than there are");
                    }
                }
            }
        }
        Ok(())
    }

    /// The last map in a text of maps, of `pid` if it is given; and the lines that are none.
    pub fn last(text: impl BufRead, pid: Option<u32>) -> io::Result<(Option<Self>, usize)> {
        let (mut last, mut unreadable) = (None, 0);
        let mut lines = Lines::new(text, LINE);
        while let Some(line) = lines.next()? {
            if line.trim().is_empty() {
                continue;
            }
            match Self::parse(line) {
                Ok(map) if pid.is_none_or(|pid| pid == map.pid) => last = Some(map),
                Ok(_) => {}
                Err(_) => unreadable += 1,
            }
        }
        Ok((last, unreadable))
    }

    /// The map of a process, looked at from outside.
    pub fn of(target: &mut Target) -> Result<Self, Trouble> {
        let (found, usage) = target.segments()?;
        let resident = target.resident().ok();
        Ok(Self::seen(found, target.pid(), usage, resident.as_ref()))
    }

    /// The map of what was found in a process.
    pub fn seen(
        found: Vec<segments::Segment>,
        pid: u32,
        usage: Usage,
        resident: Option<&Resident>,
    ) -> Self {
        let segments = found.into_iter().map(|segment| {
            let mut drawn = Segment {
                address: format!("{:#x}", segment.address),
                thp: segment.thp,
                heap: segment.heap.map(|name| text_of(&name)),
                ..Segment::default()
            };
            match segment.body {
                Body::Huge { span, reserve } => {
                    let bytes =
                        resident.and_then(|r| r.bytes([(segment.address, span)].into_iter(), span));
                    drawn.huge = Some(span as u32);
                    drawn.reserve = Some(reserve as u32);
                    drawn.resident_bytes = Some(bytes.unwrap_or(0));
                }
                Body::Slots(slots) => {
                    let counts = resident.and_then(|r| r.of_slots(segment.address).ok());
                    drawn.resident = counts.map(Into::into);
                    drawn.slots = slots
                        .into_iter()
                        .map(|slot| Slot {
                            slot: slot.first.into(),
                            span: slot.span.into(),
                            content: content(slot.used),
                            heap: slot.heap.map(|name| text_of(&name)),
                        })
                        .collect();
                }
            }
            drawn
        });
        Self {
            schema: SCHEMA,
            kind: "map".into(),
            event: "outside".into(),
            pid,
            program: usage.name,
            slot_bytes: SLOT_BYTES,
            segment_bytes: SEGMENT_BYTES,
            segments: segments.collect(),
        }
    }
}

fn content(used: Use) -> Content {
    match used {
        Use::Clean => Content::Clean,
        Use::Dirty => Content::Dirty,
        Use::Kept => Content::Kept,
        Use::Large => Content::Large,
        Use::Page(page) => Content::Page(Page {
            size: page.size,
            blocks: page.blocks,
            carved: page.carved,
            used: page.used,
            state: match page.state {
                "queue" => PageState::Queue,
                "full" => PageState::Full,
                "retired" => PageState::Retired,
                "candidate" => PageState::Candidate,
                "parked" => PageState::Parked,
                "program" => PageState::Program,
                _ => PageState::Other,
            },
        }),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const ONE: &str = r#"{"schema":1,"kind":"map","event":"exit","pid":7,"program":"a<b","version":"0.1.0","slot_bytes":65536,"segment_bytes":2097152,"segments":[{"address":"0x7f0000000000","thp":true,"resident":[16,4,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,0,0,0],"slots":[{"slot":0,"span":1,"use":"large"},{"slot":1,"span":1,"use":"page","size":64,"blocks":1024,"carved":512,"used":100,"state":"parked"},{"slot":2,"span":8,"use":"page","size":65536,"blocks":8,"carved":8,"used":8,"state":"full"},{"slot":10,"span":17,"use":"large"},{"slot":27,"span":1,"use":"kept"},{"slot":28,"span":1,"use":"dirty"},{"slot":29,"span":1,"use":"clean"},{"slot":30,"span":1,"use":"clean"},{"slot":31,"span":1,"use":"clean"}]},{"address":"0x7f0000200000","thp":false,"huge":3,"reserve":2,"resident_bytes":4194304}]}"#;

    #[test]
    fn the_last_of_a_process_is_taken() {
        let other = ONE
            .replace(r#""pid":7"#, r#""pid":8"#)
            .replace("exit", "signal");
        let last = |text: &str, pid| Map::last(text.as_bytes(), pid).unwrap();
        let (map, unreadable) = last(&format!("{ONE}\nnonsense\n{other}\n"), Some(7));
        assert_eq!((map.unwrap().event.as_str(), unreadable), ("exit", 1));
        assert_eq!(last(&format!("{ONE}\n{other}\n"), None).0.unwrap().pid, 8);
        assert!(last(ONE, Some(9)).0.is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (good, bad) in [
            (r#""schema":1"#, r#""schema":2"#),
            (r#""kind":"map""#, r#""kind":"report""#),
            (r#""slot":31,"span":1"#, r#""slot":31,"span":2"#),
            (r#""slot":31,"span":1"#, r#""slot":31,"span":0"#),
            (r#""slot_bytes":65536"#, r#""slot_bytes":0"#),
            (r#""slot":30,"#, r#""slot":29,"#),
            (r#""size":64,"#, r#""size":0,"#),
            (r#""huge":3"#, r#""huge":18446744073709551615"#),
            (r#""address":"0x7f0000000000""#, r#""address":"<svg>""#),
            (
                r#""segment_bytes":2097152"#,
                r#""segment_bytes":9223372036854775808"#,
            ),
        ] {
            assert!(Map::parse(&ONE.replace(good, bad)).is_err(), "{bad}");
        }
        let map = Map::parse(&ONE.replace(r#""used":100"#, r#""used":5000"#)).unwrap();
        let Content::Page(page) = &map.segments[0].slots[1].content else {
            panic!("a page");
        };
        assert_eq!(page.used, 512, "no more are out than were carved");
        let huge = r#"{"address":"0x1","thp":false,"huge":4294967295},"#.repeat(9);
        let many = ONE.replace(r#""segments":["#, &format!(r#""segments":[{huge}"#));
        assert!(Map::parse(&many).is_err(), "more than there can be");
        let map = Map::parse(&ONE.replace("a<b", "\\u001b]0;b\\u009b")).unwrap();
        assert_eq!(map.program, "?]0;b?");
    }

    #[test]
    fn what_is_written_is_what_was_read() {
        let map = Map::parse(ONE).unwrap();
        let again = Map::parse(&serde_json::to_string(&map).unwrap()).unwrap();
        assert_eq!(again.segments[0].slots, map.segments[0].slots);
        assert_eq!(again.segments[1].huge, Some(3));
    }
}
