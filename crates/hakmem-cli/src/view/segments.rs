//! Segments, slots and pages of another process: what `stats::heap_walk` counts, and what `hakmem
//! map` draws.

use super::heaps::{CLASSES, sizes};
use super::memory::{Lists, Memory, PageMap, Source, u8_at, u32_at, u64_at};
use super::note::Note;
use super::programs::NAME;
use crate::checked::{Budget, refuse};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;

/// What a slot's metadata says of it: `Kind` of the core.
const PAGE: u8 = 1;
const LARGE: u8 = 3;
const HUGE: u8 = 4;
/// The same for samples of the heap profile.
const SAMPLED_PAGE: u8 = 6;
const SAMPLED_LARGE: u8 = 7;
const SAMPLED_HUGE: u8 = 8;
/// The same for program heaps.
const PROGRAM_PAGE: u8 = 9;
const PROGRAM_LARGE: u8 = 10;
const PROGRAM_HUGE: u8 = 11;
/// Where a page is: `Place` of the core.
const FULL: u8 = 1;
const RETIRED: u8 = 2;
const STATES: [&str; 6] = ["queue", "full", "retired", "cached", "candidate", "parked"];
/// The state of a page of a program heap, which has none of its own.
const PROGRAM: &str = "program";
/// What this program knows how to draw.
pub const SLOT_BYTES: u64 = 64 << 10;
pub const SEGMENT_BYTES: u64 = 2 << 20;
const SLOTS: usize = (SEGMENT_BYTES / SLOT_BYTES) as usize;
/// Arenas there may be, and groups of segments in one of them: 32 TiB.
const MOST_ARENAS: usize = 64;
/// A segment that asks for huge pages, or tries them: `THP` and `TRIED` of the core.
const THP: [u8; 2] = [1, 3];
const MOST_GROUPS: u64 = 1 << 18;
/// Segments that are looked at, a huge block being one, and runs of slots in them.
const MOST_SEGMENTS: u64 = 1 << 18;
const MOST_RUNS: u64 = 1 << 21;

/// A segment that is in use.
pub struct Segment {
    pub address: u64,
    pub thp: bool,
    pub body: Body,
    /// For a huge block, the name of the heap that the program made, if one has it.
    pub heap: Option<HeapName>,
}

/// The name of a program heap. A shorter one ends with a zero byte.
pub type HeapName = [u8; NAME];

pub enum Body {
    /// Segments that it has, and those behind that are kept for it to grow into.
    Huge { span: u64, reserve: u64 },
    /// What its slots are, from the first.
    Slots(Box<[Slot]>),
}

/// A run of slots with one use.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    pub first: u8,
    pub span: u8,
    pub used: Use,
    /// The name of the heap that the program made, if one has the page or the large block.
    pub heap: Option<HeapName>,
}

#[derive(Debug, Clone, Copy)]
pub enum Use {
    Clean,
    Dirty,
    Kept,
    Large,
    Page(Page),
}

/// A page of blocks.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    pub class: u8,
    /// Where it is.
    pub state: &'static str,
    pub size: u32,
    /// Blocks that fit.
    pub blocks: u32,
    pub carved: u32,
    /// Blocks that are neither untouched nor freed: with the program, on a thread's list, or under
    /// way.
    pub used: u32,
}

/// Reads them all, in the order of their addresses within each arena.
pub fn read(memory: Memory, note: &Note) -> io::Result<Vec<Segment>> {
    let exact = |name, bytes: u64| note.number(name, bytes as usize..=bytes as usize);
    exact("slot_bytes", SLOT_BYTES)?;
    exact("segment_bytes", SEGMENT_BYTES)?;
    let reader = Reader {
        memory,
        sizes: sizes(memory, note)?,
        fields: Fields::of(note)?,
        names: RefCell::default(),
        left: Budget::new(MOST_SEGMENTS, "segments"),
        runs_left: Budget::new(MOST_RUNS, "runs of slots"),
    };
    let count = memory.bytes(note.place("arena_count")?, 1)?[0];
    let bytes = note.size("arena_bytes")?;
    let arenas = memory.bytes(
        note.place("arenas")?,
        bytes * usize::from(count).min(MOST_ARENAS),
    )?;
    let mut segments = Vec::new();
    for arena in arenas.chunks_exact(bytes) {
        reader.arena(arena, note, &mut segments)?;
    }
    Ok(segments)
}

/// Where things are in the metadata of a slot.
struct Fields {
    /// Of the metadata.
    bytes: usize,
    kind: usize,
    span: usize,
    reserve: usize,
    slots: usize,
    thp: usize,
    owner: usize,
    needed: usize,
    carved: usize,
    cap: usize,
    class: usize,
    state: usize,
    base: usize,
    unfull_at: usize,
    /// Where a page of a program heap names the heap, and where its name is there.
    heap: Option<(usize, usize)>,
}

impl Fields {
    fn of(note: &Note) -> io::Result<Self> {
        let bytes = note.size("meta_bytes")?;
        let field = |name, width| note.field(name, width, bytes);
        Ok(Self {
            bytes,
            kind: field("meta.kind", 1)?,
            span: field("meta.span", 4)?,
            reserve: field("meta.reserve", 4)?,
            slots: field("meta.slots", 8)?,
            thp: field("meta.thp", 1)?,
            owner: field("meta.owner", 8)?,
            needed: field("meta.list.until_slow", 4)?,
            carved: field("meta.carved", 4)?,
            cap: field("meta.cap", 4)?,
            class: field("meta.class", 1)?,
            state: field("meta.state", 1)?,
            base: field("meta.park_at", 1)?,
            unfull_at: field("meta.unfull_at", 4)?,
            heap: match note.size("program_heap_bytes") {
                Ok(heap) => Some((
                    field("meta.heap", 8)?,
                    note.field("program.name", NAME, heap)?,
                )),
                Err(_) => None,
            },
        })
    }
}

struct Reader<'a> {
    memory: Memory<'a>,
    sizes: Vec<u64>,
    fields: Fields,
    /// Names of program heaps, by where they are.
    names: RefCell<HashMap<u64, HeapName>>,
    left: Budget,
    runs_left: Budget,
}

impl Reader<'_> {
    fn arena(&self, arena: &[u8], note: &Note, segments: &mut Vec<Segment>) -> io::Result<()> {
        let field = |name| Ok::<_, io::Error>(u64_at(arena, note.field(name, 8, arena.len())?));
        let (data, metas) = (field("arena.data")?, field("arena.metas")?);
        let (groups, top) = (field("arena.groups")?, field("arena.top")?);
        let bytes = note.number("group_bytes", 8..=256)?;
        let used = note.field("group.used", 8, bytes)?;
        let each = note.number("segments_of_group", 1..=64)? as u64;
        // Just so many that addresses in them are no larger than addresses can be.
        let ends = data.checked_add(MOST_GROUPS * 64 * SEGMENT_BYTES);
        if top > MOST_GROUPS || !data.is_multiple_of(SLOT_BYTES) || ends.is_none() {
            return Err(refuse("an arena of it makes no sense"));
        }
        let groups = self.memory.bytes(groups, bytes * top as usize)?;
        // A bit for each group that is used as a whole, whatever its own word says.
        let words = field("arena.reserved")?.div_ceil(each).div_ceil(64);
        let row = note.number("summary.full", 0..=64)? as u64;
        let full = field("arena.summary")?.wrapping_add(words.wrapping_mul(8 * row));
        let full = match top {
            0 => Vec::new(),
            _ => self.memory.bytes(full, top.div_ceil(64) as usize * 8)?,
        };
        let mut behind_huge = 0;
        for (group, words) in (0..).zip(groups.chunks_exact(bytes)) {
            let is_full = u64_at(&full, group as usize / 64 * 8) >> (group % 64) & 1 != 0;
            let word = if is_full {
                u64::MAX
            } else {
                u64_at(words, used)
            };
            let used = (0..each).filter(|s| word >> s & 1 != 0);
            for segment in used.map(|s| group * each + s) {
                if segment < behind_huge {
                    continue; // What lies in a huge block has no kind of its own.
                }
                self.left.take(1)?;
                let length = SLOTS * self.fields.bytes;
                let at = metas.saturating_add(segment * length as u64);
                let metas = self.memory.bytes(at, length)?;
                let address = data + segment * SEGMENT_BYTES;
                let found = self.segment(address, &metas, top * each - segment)?;
                if let Body::Huge { span, reserve } = found.body {
                    behind_huge = segment + span + reserve;
                }
                segments.push(found);
            }
        }
        Ok(())
    }

    /// A segment, from which on there are `room` in the arena.
    fn segment(&self, address: u64, metas: &[u8], room: u64) -> io::Result<Segment> {
        let f = &self.fields;
        let thp = THP.contains(&u8_at(metas, f.thp));
        if matches!(u8_at(metas, f.kind), HUGE | SAMPLED_HUGE | PROGRAM_HUGE) {
            // It lies in its arena, though that may have grown since its end was read.
            let span = u64::from(u32_at(metas, f.span)).clamp(1, room);
            let whole = u64::from(u32_at(metas, f.reserve)).clamp(span, room);
            let body = Body::Huge {
                span,
                reserve: whole - span,
            };
            let heap = self.heap(metas);
            return Ok(Segment {
                address,
                thp,
                body,
                heap,
            });
        }
        let word = u64_at(metas, f.slots);
        let mut slots: Vec<Slot> = Vec::with_capacity(SLOTS);
        let mut slot = 0;
        while slot < SLOTS {
            let meta = &metas[slot * f.bytes..];
            let is = |shift: u32| word >> shift >> slot & 1 != 0;
            let length = (u32_at(meta, f.span) as usize).clamp(1, SLOTS - slot);
            let (used, length) = match u8_at(meta, f.kind) {
                _ if !is(0) => (if is(32) { Use::Dirty } else { Use::Clean }, 1),
                PAGE | SAMPLED_PAGE | PROGRAM_PAGE => (Use::Page(self.page(meta, length)?), length),
                LARGE | SAMPLED_LARGE | PROGRAM_LARGE => (Use::Large, length),
                _ => (Use::Kept, 1),
            };
            slots.push(Slot {
                first: slot as u8,
                span: length as u8,
                used,
                heap: self.heap(meta),
            });
            slot += length;
        }
        self.runs_left.take(slots.len() as u64)?;
        Ok(Segment {
            address,
            thp,
            body: Body::Slots(slots.into()),
            heap: None,
        })
    }

    /// A page of so many slots. Its blocks fit into it, whatever it says.
    fn page(&self, meta: &[u8], slots: usize) -> io::Result<Page> {
        let f = &self.fields;
        let signed = |at| i64::from(u32_at(meta, at) as i32);
        let (class, state) = (u8_at(meta, f.class), u8_at(meta, f.state));
        let Some(&size) = self.sizes.get(usize::from(class)) else {
            return Err(refuse("a page of it is of no class"));
        };
        let fit = slots as u64 * SLOT_BYTES / size;
        let blocks = u64::from(u32_at(meta, f.cap)).min(fit);
        let carved = u64::from(u32_at(meta, f.carved)).min(blocks);
        // `Meta::waiting` of the core, and an empty page that rests has no owner.
        let owned = u64_at(meta, f.owner) != 0;
        let out = match state {
            RETIRED if !owned => 0,
            FULL => carved as i64 - signed(f.unfull_at) + signed(f.needed),
            _ => signed(f.needed) + i64::from(u8_at(meta, f.base)),
        };
        Ok(Page {
            class,
            state: match u8_at(meta, f.kind) {
                PROGRAM_PAGE => PROGRAM,
                _ => STATES.get(usize::from(state)).copied().unwrap_or("?"),
            },
            size: size as u32,
            blocks: blocks as u32,
            carved: carved as u32,
            used: out.clamp(0, carved as i64) as u32,
        })
    }

    /// The name of the program heap that has a page or a block. It is empty if the heap ends
    /// meanwhile.
    fn heap(&self, meta: &[u8]) -> Option<HeapName> {
        let kind = u8_at(meta, self.fields.kind);
        matches!(kind, PROGRAM_PAGE | PROGRAM_LARGE | PROGRAM_HUGE).then(|| self.name(meta))
    }

    fn name(&self, meta: &[u8]) -> HeapName {
        let Some((heap, name)) = self.fields.heap else {
            return [0; NAME];
        };
        let at = u64_at(meta, heap).saturating_add(name as u64);
        *self.names.borrow_mut().entry(at).or_insert_with(|| {
            let read = self.memory.bytes(at, NAME).unwrap_or_default();
            read.try_into().unwrap_or([0; NAME])
        })
    }
}

/// Takes the blocks on threads' lists from those that are out. `lists` are classes, and where the
/// first block of a heap's list stands. Returns the blocks of each class on lists, and whether all
/// lists could be followed.
pub fn take_listed(
    segments: &mut [Segment],
    lists: &[(usize, u64)],
    follow: &Lists,
) -> (Vec<u64>, bool) {
    let (mut listed, mut whole) = (vec![0; *CLASSES.end()], true);
    let mut by_slot: HashMap<u64, u64> = HashMap::new();
    for &(class, head) in lists {
        let (blocks, all) = follow.blocks(head, |block| {
            *by_slot.entry(block / SLOT_BYTES).or_default() += 1;
        });
        whole &= all;
        listed[class] += blocks;
    }
    for segment in segments {
        let Body::Slots(slots) = &mut segment.body else {
            continue;
        };
        for slot in slots {
            let number = segment.address / SLOT_BYTES + u64::from(slot.first);
            if let Use::Page(page) = &mut slot.used {
                let here = (number..number + u64::from(slot.span)).filter_map(|n| by_slot.get(&n));
                let here: u64 = here.sum();
                page.used = page
                    .used
                    .saturating_sub(u32::try_from(here).unwrap_or(u32::MAX));
            }
        }
    }
    (listed, whole)
}

/// Which of the kernel's pages are resident, from /proc/PID/pagemap.
pub struct Resident {
    map: PageMap,
    /// Segments that are still asked for.
    left: Budget,
}

/// Segments of a huge block that are asked for what is resident: of more, a part is, and the rest
/// estimated.
pub const ASKED: u64 = 4096;

impl Resident {
    pub fn of(source: &dyn Source) -> io::Result<Self> {
        Ok(Self {
            map: source.page_map()?,
            left: Budget::new(1 << 17, "segments"),
        })
    }

    /// Resident pages of 4 KiB in each slot of a segment.
    pub fn of_slots(&self, segment: u64) -> io::Result<[u8; SLOTS]> {
        const PRESENT: u64 = 1 << 63;
        self.left.take(1)?;
        let mut entries = [0; (SEGMENT_BYTES / 4096 * 8) as usize];
        (self.map)(segment, &mut entries)?;
        let mut counts = [0; SLOTS];
        for (count, slot) in counts.iter_mut().zip(entries.chunks(entries.len() / SLOTS)) {
            let entries = slot.chunks_exact(8);
            *count = entries.filter(|e| u64_at(e, 0) & PRESENT != 0).count() as u8;
        }
        Ok(counts)
    }

    /// Resident bytes of so many segments in runs of an address and a number.
    pub fn bytes(&self, runs: impl Iterator<Item = (u64, u64)>, segments: u64) -> Option<u64> {
        let step = segments.div_ceil(ASKED).max(1);
        let (mut before, mut next) = (0, 0);
        let (mut asked, mut bytes) = (0, 0);
        for (address, number) in runs {
            while next < before + number {
                if let Ok(counts) = self.of_slots(address + (next - before) * SEGMENT_BYTES) {
                    asked += 1;
                    bytes += counts.iter().map(|&n| u64::from(n) * 4096).sum::<u64>();
                }
                next += step;
            }
            before += number;
        }
        let all = u128::from(bytes) * u128::from(segments);
        Some(all.checked_div(asked)? as u64)
    }
}
