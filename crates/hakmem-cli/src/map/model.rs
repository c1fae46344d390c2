//! The heap at one moment, slot by slot: as the library writes it (`docs/observability.md` has the form), or as seen from
//! outside.

use crate::view::segments::{Body, Use};
use crate::view::{Target, Trouble};
use serde::de::Error;
use serde::{Deserialize, Serialize};

/// The version of the form that this program reads and writes.
const SCHEMA: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Map {
    pub schema: u32,
    pub kind: String,
    pub event: String,
    pub pid: u32,
    pub program: String,
    pub slot_bytes: u64,
    pub segment_bytes: u64,
    pub segments: Vec<Segment>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Segment {
    /// In hexadecimal.
    pub address: String,
    pub huge: bool,
    /// For a whale, its segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whale: Option<u64>,
    /// For a whale, the segments behind that are kept for it to grow into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<u64>,
    /// For a whale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Pieces of 4 KiB that are resident, by slot; none where the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<Vec<u32>>,
    #[serde(default)]
    pub slots: Vec<Slot>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The number of the first one in its segment.
    pub slot: usize,
    pub span: usize,
    #[serde(flatten)]
    pub content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "use", rename_all = "lowercase")]
pub enum Content {
    Unused,
    Empty,
    Kept,
    Large,
    Page(Page),
}

/// A page of blocks; see the library's form for what they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub size: u64,
    pub blocks: u64,
    pub carved: u64,
    pub out: u64,
    pub place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Queue,
    Asleep,
    Resting,
    Cooling,
    Sparse,
    #[serde(other)]
    Other,
}

impl Map {
    /// Parses one map.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let mut map: Self = serde_json::from_str(line)?;
        if map.schema != SCHEMA || map.kind != "map" {
            return Err(Error::custom("not a map, or of another schema"));
        }
        let slots = map.segment_bytes.checked_div(map.slot_bytes).unwrap_or(0);
        if !(1..=1024).contains(&slots) {
            return Err(Error::custom("slots that do not fit their segments"));
        }
        // What does not lie in its segment would be drawn over another.
        let outside = |s: &Slot| s.span == 0 || s.slot.saturating_add(s.span) > slots as usize;
        if map.segments.iter().any(|s| s.slots.iter().any(outside)) {
            return Err(Error::custom("a slot that is not in its segment"));
        }
        for slot in map.segments.iter_mut().flat_map(|s| &mut s.slots) {
            if let Content::Page(page) = &mut slot.content {
                page.carved = page.carved.min(page.blocks);
                page.out = page.out.min(page.carved);
            }
        }
        Ok(map)
    }

    /// The last map in a text of maps, of `pid` if it is given; and the lines that are none.
    pub fn last(text: &str, pid: Option<u32>) -> (Option<Self>, usize) {
        let (mut last, mut unreadable) = (None, 0);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match Self::parse(line) {
                Ok(map) if pid.is_none_or(|pid| pid == map.pid) => last = Some(map),
                Ok(_) => {}
                Err(_) => unreadable += 1,
            }
        }
        (last, unreadable)
    }

    /// The map of a process, looked at from outside.
    pub fn of(target: &mut Target) -> Result<Self, Trouble> {
        let (found, usage) = target.segments()?;
        let (slot_bytes, segment_bytes) = (64 << 10, 2 << 20);
        let resident = target.resident().ok();
        let count = |address, bytes, piece| {
            let resident = resident.as_ref()?;
            resident.count(address, bytes, piece).ok()
        };
        let segments = found.into_iter().map(|segment| {
            let mut drawn = Segment {
                address: format!("{:#x}", segment.address),
                huge: segment.huge,
                ..Segment::default()
            };
            match segment.body {
                Body::Whale { span, reserve } => {
                    let bytes = span * segment_bytes;
                    let counts = count(segment.address, bytes, segment_bytes).unwrap_or_default();
                    drawn.whale = Some(span);
                    drawn.reserve = Some(reserve);
                    drawn.resident_bytes = Some(counts.iter().map(|&n| u64::from(n) * 4096).sum());
                }
                Body::Slots(slots) => {
                    drawn.resident = count(segment.address, segment_bytes, slot_bytes);
                    drawn.slots = slots
                        .into_iter()
                        .map(|slot| Slot {
                            slot: slot.first,
                            span: slot.span,
                            content: content(slot.used),
                        })
                        .collect();
                }
            }
            drawn
        });
        Ok(Self {
            schema: SCHEMA,
            kind: "map".into(),
            event: "outside".into(),
            pid: target.pid(),
            program: usage.name,
            slot_bytes,
            segment_bytes,
            segments: segments.collect(),
        })
    }
}

fn content(used: Use) -> Content {
    match used {
        Use::Unused => Content::Unused,
        Use::Empty => Content::Empty,
        Use::Kept => Content::Kept,
        Use::Large => Content::Large,
        Use::Page(page) => Content::Page(Page {
            size: page.size,
            blocks: page.blocks,
            carved: page.carved,
            out: page.out,
            place: match page.place {
                "queue" => Place::Queue,
                "asleep" => Place::Asleep,
                "resting" => Place::Resting,
                "cooling" => Place::Cooling,
                "sparse" => Place::Sparse,
                _ => Place::Other,
            },
        }),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const ONE: &str = r#"{"schema":1,"kind":"map","event":"exit","pid":7,"program":"a<b","version":"0.1.0","slot_bytes":65536,"segment_bytes":2097152,"segments":[{"address":"0x7f0000000000","huge":true,"resident":[16,4,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,0,0,0],"slots":[{"slot":0,"span":1,"use":"large"},{"slot":1,"span":1,"use":"page","size":64,"blocks":1024,"carved":512,"out":100,"place":"sparse"},{"slot":2,"span":8,"use":"page","size":65536,"blocks":8,"carved":8,"out":8,"place":"asleep"},{"slot":10,"span":17,"use":"large"},{"slot":27,"span":1,"use":"kept"},{"slot":28,"span":1,"use":"empty"},{"slot":29,"span":1,"use":"unused"},{"slot":30,"span":1,"use":"unused"},{"slot":31,"span":1,"use":"unused"}]},{"address":"0x7f0000200000","huge":false,"whale":3,"reserve":2,"resident_bytes":4194304}]}"#;

    #[test]
    fn the_last_of_a_process_is_taken() {
        let other = ONE
            .replace(r#""pid":7"#, r#""pid":8"#)
            .replace("exit", "signal");
        let (map, unreadable) = Map::last(&format!("{ONE}\nnonsense\n{other}\n"), Some(7));
        assert_eq!((map.unwrap().event.as_str(), unreadable), ("exit", 1));
        assert_eq!(
            Map::last(&format!("{ONE}\n{other}\n"), None).0.unwrap().pid,
            8
        );
        assert!(Map::last(ONE, Some(9)).0.is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (good, bad) in [
            (r#""schema":1"#, r#""schema":2"#),
            (r#""kind":"map""#, r#""kind":"report""#),
            (r#""slot":31,"span":1"#, r#""slot":31,"span":2"#),
            (r#""slot":31,"span":1"#, r#""slot":31,"span":0"#),
            (r#""slot_bytes":65536"#, r#""slot_bytes":0"#),
        ] {
            assert!(Map::parse(&ONE.replace(good, bad)).is_err(), "{bad}");
        }
        let map = Map::parse(&ONE.replace(r#""out":100"#, r#""out":5000"#)).unwrap();
        let Content::Page(page) = map.segments[0].slots[1].content else {
            panic!("a page");
        };
        assert_eq!(page.out, 512, "no more are out than were carved");
    }

    #[test]
    fn what_is_written_is_what_was_read() {
        let map = Map::parse(ONE).unwrap();
        let again = Map::parse(&serde_json::to_string(&map).unwrap()).unwrap();
        assert_eq!(again.segments[0].slots, map.segments[0].slots);
        assert_eq!(again.segments[1].whale, Some(3));
    }
}
