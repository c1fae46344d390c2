//! What the slots add up to.

use super::model::{Content, Map, Page, Segment};
use std::collections::BTreeMap;

/// Bytes by what they are used for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Totals {
    /// In blocks that are out.
    pub used: u64,
    /// Freed, in pages that have blocks out.
    pub freed: u64,
    /// Never touched, in pages, and what is left at their ends.
    pub untouched: u64,
    pub large: u64,
    pub huge: u64,
    pub kept: u64,
    pub empty: u64,
    pub clean: u64,
    pub resident: u64,
    /// By block size.
    pub classes: BTreeMap<u32, Class>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Class {
    pub pages: u64,
    pub bytes: u64,
    pub used: u64,
    pub freed: u64,
}

/// Bytes of its blocks that are out, and of those that were freed.
pub fn of_page(page: &Page) -> (u64, u64) {
    let bytes = |blocks: u32| u64::from(blocks) * u64::from(page.size);
    (bytes(page.used), bytes(page.carved - page.used))
}

/// Bytes of it that are in use, and those that are resident.
pub fn of_segment(map: &Map, segment: &Segment) -> (u64, Option<u64>) {
    if let Some(huge) = segment.huge {
        return (u64::from(huge) * map.segment_bytes, segment.resident_bytes);
    }
    let used = segment.slots.iter().map(|slot| match &slot.content {
        Content::Page(page) => of_page(page).0,
        Content::Large => u64::from(slot.span) * map.slot_bytes,
        _ => 0,
    });
    let resident = segment.resident.as_ref();
    (
        used.sum(),
        resident.map(|r| r.iter().map(|&n| u64::from(n) * 4096).sum()),
    )
}

pub fn of(map: &Map) -> Totals {
    let mut t = Totals::default();
    for segment in &map.segments {
        t.huge += u64::from(segment.huge.unwrap_or(0)) * map.segment_bytes;
        t.resident += of_segment(map, segment).1.unwrap_or(0);
        for slot in &segment.slots {
            let bytes = u64::from(slot.span) * map.slot_bytes;
            match &slot.content {
                Content::Clean => t.clean += bytes,
                Content::Dirty => t.empty += bytes,
                Content::Kept => t.kept += bytes,
                Content::Large => t.large += bytes,
                Content::Page(page) => {
                    let (out, freed) = of_page(page);
                    t.used += out;
                    t.freed += freed;
                    t.untouched += bytes.saturating_sub(out + freed);
                    let class = t.classes.entry(page.size).or_default();
                    class.pages += 1;
                    class.bytes += bytes;
                    class.used += out;
                    class.freed += freed;
                }
            }
        }
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::model::tests::ONE;

    #[test]
    fn every_slot_is_counted_once() {
        let map = Map::parse(ONE).unwrap();
        let t = of(&map);
        assert_eq!((t.used, t.freed), (100 * 64 + 8 * 65536, 412 * 64));
        assert_eq!(t.huge, 3 * map.segment_bytes);
        let slots = t.used + t.freed + t.untouched + t.large + t.kept + t.empty + t.clean;
        assert_eq!(slots, map.segment_bytes);
        assert_eq!(t.resident, (28 * 16 + 4) * 4096 + (4 << 20));
        assert_eq!((t.classes[&64].pages, t.classes[&64].bytes), (1, 65536));
    }
}
