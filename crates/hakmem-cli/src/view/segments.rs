//! Segments, slots and pages of another process: what `stats::census` counts, and what `hakmem map` draws.

use super::memory::{Lists, Memory, u8_at, u32_at, u64_at};
use super::note::Note;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What a slot's metadata says of it: `Kind` of the core.
const PAGE: u8 = 1;
const LARGE: u8 = 3;
const WHALE: u8 = 4;
/// The same for samples of the heap profile.
const SAMPLED_PAGE: u8 = 6;
const SAMPLED_LARGE: u8 = 7;
const SAMPLED_WHALE: u8 = 8;
/// Where a page is: `Place` of the core.
const ASLEEP: u8 = 1;
const RESTING: u8 = 2;
const PLACES: [&str; 6] = [
    "queue", "asleep", "resting", "retained", "cooling", "sparse",
];
/// Arenas there may be, and segments in one of them.
const MOST_ARENAS: usize = 64;
/// A segment that asks for huge pages.
const HUGE: u8 = 1;
const MOST_GROUPS: u64 = 1 << 20;

/// A segment that is in use.
pub struct Segment {
    pub address: u64,
    pub huge: bool,
    pub body: Body,
}

pub enum Body {
    /// Segments that it has, and those behind that are kept for it to grow into.
    Whale { span: u64, reserve: u64 },
    /// What its slots are, from the first.
    Slots(Vec<Slot>),
}

/// A run of slots with one use.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    pub first: usize,
    pub span: usize,
    pub used: Use,
}

#[derive(Debug, Clone, Copy)]
pub enum Use {
    Unused,
    Empty,
    Kept,
    Large,
    Page(Page),
}

/// A page of blocks.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    pub class: usize,
    pub size: u64,
    /// Blocks that fit.
    pub blocks: u64,
    pub carved: u64,
    /// Blocks that are neither untouched nor freed: with the program, on a thread's list, or under way.
    pub out: u64,
    pub place: &'static str,
}

/// Reads them all, in the order of their addresses within each arena.
pub fn read(memory: Memory, note: &Note) -> io::Result<Vec<Segment>> {
    let reader = Reader {
        memory,
        note,
        slot_bytes: note.number("slot_bytes")? as u64,
        segment_bytes: note.number("segment_bytes")? as u64,
        meta_bytes: note.number("meta_bytes")?,
    };
    let count = memory.bytes(note.place("arena_count")?, 1)?[0];
    let mut segments = Vec::new();
    for i in 0..usize::from(count).min(MOST_ARENAS) {
        reader.arena(i, &mut segments)?;
    }
    Ok(segments)
}

struct Reader<'a> {
    memory: Memory,
    note: &'a Note,
    slot_bytes: u64,
    segment_bytes: u64,
    meta_bytes: usize,
}

impl Reader<'_> {
    fn slots(&self) -> usize {
        (self.segment_bytes / self.slot_bytes).min(64) as usize
    }

    fn arena(&self, i: usize, segments: &mut Vec<Segment>) -> io::Result<()> {
        let n = |name| self.note.number(name);
        let len = n("arena_bytes")?;
        let arena = self
            .memory
            .bytes(self.note.place("arenas")? + (i * len) as u64, len)?;
        let field = |name| Ok::<_, io::Error>(u64_at(&arena, n(name)?));
        let (data, metas) = (field("arena.data")?, field("arena.metas")?);
        let (groups, top) = (field("arena.groups")?, field("arena.top")?.min(MOST_GROUPS));
        let (bytes, used, each) = (
            n("group_bytes")?,
            n("group.used")?,
            n("segments_of_group")?.clamp(1, 64),
        );
        let groups = self.memory.bytes(groups, bytes * top as usize)?;
        // A bit for each group that is used as a whole, whatever its own word says.
        let words = field("arena.reserved")?.div_ceil(each as u64).div_ceil(64);
        let full = field("arena.summary")?
            .wrapping_add(words.wrapping_mul(8).wrapping_mul(n("summary.full")? as u64));
        let full = match top {
            0 => Vec::new(),
            _ => self.memory.bytes(full, top.div_ceil(64) as usize * 8)?,
        };
        let mut behind_whale = 0;
        for group in 0..top as usize {
            let is_full = u64_at(&full, group / 64 * 8) >> (group % 64) & 1 != 0;
            let word = match is_full {
                true => u64::MAX,
                false => u64_at(&groups, group * bytes + used),
            };
            for segment in (0..each)
                .filter(|s| word >> s & 1 != 0)
                .map(|s| (group * each + s) as u64)
            {
                if segment < behind_whale {
                    continue; // What lies in a whale has no kind of its own.
                }
                let length = self.slots() * self.meta_bytes;
                let meta = self.memory.bytes(metas + segment * length as u64, length)?;
                let found = self.segment(data + segment * self.segment_bytes, &meta)?;
                if let Body::Whale { span, reserve } = found.body {
                    behind_whale = segment + span + reserve;
                }
                segments.push(found);
            }
        }
        Ok(())
    }

    fn segment(&self, address: u64, metas: &[u8]) -> io::Result<Segment> {
        let n = |name| self.note.number(name);
        let (kind, span) = (n("meta.kind")?, n("meta.span")?);
        let huge = u8_at(metas, n("meta.huge")?) == HUGE;
        if matches!(u8_at(metas, kind), WHALE | SAMPLED_WHALE) {
            let span = u64::from(u32_at(metas, span));
            let room = u64::from(u32_at(metas, n("meta.reserve")?)).max(span);
            let body = Body::Whale {
                span,
                reserve: room - span,
            };
            return Ok(Segment {
                address,
                huge,
                body,
            });
        }
        let word = u64_at(metas, n("meta.slots")?);
        let mut slots: Vec<Slot> = Vec::new();
        let mut slot = 0;
        while slot < self.slots() {
            let meta = &metas[slot * self.meta_bytes..];
            let is = |shift: u32| word >> shift >> slot & 1 != 0;
            let most = (self.slots() - slot) as u64;
            let length = u64::from(u32_at(meta, span)).clamp(1, most) as usize;
            let (used, length) = match u8_at(meta, kind) {
                _ if !is(0) => (if is(32) { Use::Empty } else { Use::Unused }, 1),
                PAGE | SAMPLED_PAGE => (Use::Page(self.page(meta)?), length),
                LARGE | SAMPLED_LARGE => (Use::Large, length),
                _ => (Use::Kept, 1),
            };
            slots.push(Slot {
                first: slot,
                span: length,
                used,
            });
            slot += length;
        }
        Ok(Segment {
            address,
            huge,
            body: Body::Slots(slots),
        })
    }

    fn page(&self, meta: &[u8]) -> io::Result<Page> {
        let word = |name| Ok::<_, io::Error>(u32_at(meta, self.note.number(name)?));
        let signed = |name| Ok::<_, io::Error>(i64::from(word(name)? as i32));
        let byte = |name| Ok::<_, io::Error>(u8_at(meta, self.note.number(name)?));
        let (carved, place) = (i64::from(word("meta.carved")?), byte("meta.place")?);
        // `Meta::waiting` of the core, and an empty page that rests has no owner.
        let owned = u64_at(meta, self.note.number("meta.owner")?) != 0;
        let out = match place {
            RESTING if !owned => 0,
            ASLEEP => carved - signed("meta.wake_at")? + signed("meta.needed")?,
            _ => signed("meta.needed")? + i64::from(byte("meta.base")?),
        };
        Ok(Page {
            class: usize::from(byte("meta.class")?),
            size: u64::from(word("meta.block_size")?),
            blocks: u64::from(word("meta.cap")?),
            carved: carved as u64,
            out: out.clamp(0, carved) as u64,
            place: PLACES.get(usize::from(place)).copied().unwrap_or("?"),
        })
    }
}

/// Takes the blocks on threads' lists from those that are out. `lists` are classes, and where the first block of a heap's list stands.
/// Returns the blocks of each class on lists, and whether all lists could be followed.
pub fn take_listed(
    segments: &mut [Segment],
    lists: &[(usize, u64)],
    classes: usize,
    follow: &Lists,
    bytes: (u64, u64),
) -> (Vec<u64>, bool) {
    let (slot_bytes, segment_bytes) = bytes;
    let (mut listed, mut whole) = (vec![0; classes], true);
    let mut by_slot: HashMap<u64, u64> = HashMap::new();
    for &(class, head) in lists {
        let (blocks, all) = follow.blocks(head, (segment_bytes / 8) as usize);
        whole &= all;
        listed[class] += blocks.len() as u64;
        for block in blocks {
            *by_slot.entry(block / slot_bytes).or_default() += 1;
        }
    }
    for segment in segments {
        let Body::Slots(slots) = &mut segment.body else {
            continue;
        };
        for slot in slots {
            let number = segment.address / slot_bytes + slot.first as u64;
            if let Use::Page(page) = &mut slot.used {
                let here = (number..number + slot.span as u64).filter_map(|n| by_slot.get(&n));
                page.out = page.out.saturating_sub(here.sum());
            }
        }
    }
    (listed, whole)
}

/// Which of the kernel's pages are resident, from /proc/PID/pagemap.
pub struct Resident(File);

impl Resident {
    pub fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/pagemap")).map(Self)
    }

    /// Resident pages of 4 KiB in each of the pieces of `piece` bytes from `address` on.
    pub fn count(&self, address: u64, bytes: u64, piece: u64) -> io::Result<Vec<u32>> {
        const PRESENT: u64 = 1 << 63;
        let mut entries = vec![0; (bytes / 4096 * 8) as usize];
        self.0.read_exact_at(&mut entries, address / 4096 * 8)?;
        let pieces = entries.chunks((piece / 4096 * 8) as usize);
        Ok(pieces
            .map(|entries| {
                let present = entries
                    .chunks_exact(8)
                    .filter(|e| u64_at(e, 0) & PRESENT != 0);
                present.count() as u32
            })
            .collect())
    }
}
