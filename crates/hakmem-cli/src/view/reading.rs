//! One reading: the figures of a report, made of what another process's memory says.

use super::build_of;
use super::decisions::{self, Decision};
use super::heaps::{self, Found, Heaps};
use super::memory::{Lists, Memory, u32_at, u64_at};
use super::note::Note;
use super::process::Usage;
use super::programs::Programs;
use super::segments::{self, Body, Resident, SEGMENT_BYTES, SLOT_BYTES, Segment, Use};
use crate::build::Build;
use crate::checked::{self, total};
use crate::stat::figures::{Moment, Syscall};
use std::io;

/// Pages of memory that are read to follow threads' lists, at most. About 100 threads that freed
/// blocks of all sizes have so many. To read them takes some 100 ms.
const LISTS_BUDGET: u64 = 1 << 15;

/// What was seen at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    pub moment: Moment,
    pub usage: Usage,
    pub decisions: Vec<Decision>,
    /// All lists of threads were followed to their ends: for a process at rest, the totals are
    /// exact.
    pub whole: bool,
}

/// The segments, with what is on threads' lists taken off; the blocks on lists by class; whether
/// all could be followed.
pub fn pages(
    memory: Memory,
    note: &Note,
    heaps: &Heaps,
) -> io::Result<(Vec<Segment>, Vec<u64>, bool)> {
    let lists = heaps.lists();
    let mut segments = segments::read(memory, note)?;
    let key = match build_of(note) {
        Some(Build::Hardened) => {
            let words = memory.words(note.place("links.key")?, 3)?;
            [words[0], words[1], words[2]]
        }
        _ => [0, 0, 1],
    };
    let follow = Lists::new(memory, LISTS_BUDGET, key);
    let (listed, whole) = segments::take_listed(&mut segments, &lists, &follow);
    Ok((segments, listed, whole))
}

/// Everything that `hakmem top` shows.
pub fn reading(memory: Memory, note: &Note, pid: u32, usage: &Usage) -> io::Result<Reading> {
    let heaps = Heaps::read(memory, note)?;
    let (segments, listed, whole) = pages(memory, note, &heaps)?;
    let programs = Programs::read(memory, note)?;
    let in_program_heaps = total(programs.bytes_in_pages.iter().copied());
    let mut m = Moment {
        event: "this moment".into(),
        pid,
        thread_heaps: heaps.figures()?,
        program_heaps: programs.heaps,
        heaps: heaps.len() as u64,
        running_heaps: heaps.running()?,
        resident_bytes: resident(memory, &segments),
        peak_resident_kib: usage.peak_resident_kib,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        cpu_nanos: usage.cpu_nanos,
        syscalls: syscalls(memory, note)?,
        ..Moment::default()
    };
    let mut of_pages = OfPages::new(listed.len());
    for segment in &segments {
        count(segment, &mut m, &mut of_pages);
    }
    let found = Found {
        waiting: of_pages.waiting(&listed),
        listed,
    };
    let (classes, freed_by_owners) = heaps.classes(&found, &of_pages.bytes)?;
    m.classes = classes;
    let words = Words { memory, note };
    add_blocks(&mut m, &words, &heaps, freed_by_owners)?;
    add_memory(&mut m, &words, &heaps)?;
    m.live_bytes = m.live_bytes.saturating_add(in_program_heaps);
    // The two are of different moments, if the process runs.
    m.peak_live_bytes_upper_bound = m.peak_live_bytes_upper_bound.max(m.live_bytes);
    m.classes
        .retain(|c| c.allocations > 0 || c.frees > 0 || c.pages > 0);
    Ok(Reading {
        moment: m,
        usage: usage.clone(),
        decisions: decisions::read(memory, note)?,
        whole,
    })
}

/// What the pages of each class have.
struct OfPages {
    /// Blocks that are touched, and not out.
    idle: Vec<u64>,
    bytes: Vec<u64>,
}

impl OfPages {
    fn new(classes: usize) -> Self {
        Self {
            idle: vec![0; classes],
            bytes: vec![0; classes],
        }
    }

    /// Of the blocks that pages are without, some are on lists, and were taken off there.
    fn waiting(&self, listed: &[u64]) -> Vec<u64> {
        let both = self.idle.iter().zip(listed);
        both.map(|(idle, listed)| idle.saturating_sub(*listed))
            .collect()
    }
}

/// Adds a segment, and what its slots are used for.
fn count(segment: &Segment, m: &mut Moment, of_pages: &mut OfPages) {
    let thp = u64::from(segment.thp) * SEGMENT_BYTES;
    let slots = match &segment.body {
        Body::Huge { span, .. } => {
            m.huge_segments += span;
            m.thp_bytes += span * thp;
            return;
        }
        Body::Slots(slots) => slots,
    };
    m.thp_bytes += thp;
    // The later segments of a run may never have been divided.
    if slots.iter().all(|s| matches!(s.used, Use::Kept))
        || slots.iter().all(|s| matches!(s.used, Use::Clean))
    {
        m.cached_segments += 1;
        return;
    }
    m.slotted_segments += 1;
    for slot in slots {
        let span = u64::from(slot.span);
        match slot.used {
            Use::Clean => m.clean_slots += span,
            Use::Dirty => m.dirty_slots += span,
            Use::Kept => m.kept_slots += span,
            Use::Large => m.large_slots += span,
            Use::Page(_) if slot.heap.is_some() => m.page_slots += span,
            Use::Page(page) => {
                m.page_slots += span;
                let class = usize::from(page.class);
                of_pages.idle[class] += u64::from(page.carved - page.used);
                of_pages.bytes[class] += span * SLOT_BYTES;
            }
        }
    }
}

/// The numbers that the note names.
struct Words<'a> {
    memory: Memory<'a>,
    note: &'a Note,
}

impl Words<'_> {
    fn of(&self, name: &str) -> io::Result<u64> {
        self.note
            .place(name)
            .and_then(|place| self.memory.word(place))
    }

    /// An option that is a number.
    fn option(&self, name: &str) -> io::Result<u64> {
        let place = self.note.place(&format!("option.{name}"))?;
        Ok(u64::from(u32_at(&self.memory.bytes(place, 4)?, 0)))
    }

    /// A number that may be below 0 for a moment.
    fn signed(&self, name: &str) -> io::Result<u64> {
        Ok((self.of(name)? as i64).max(0) as u64)
    }
}

/// Adds what was allocated and freed. The classes are there already.
fn add_blocks(m: &mut Moment, words: &Words, heaps: &Heaps, by_owners: i128) -> io::Result<()> {
    let sent = m.thread_heaps.iter().map(|h| h.blocks_sent);
    m.remote_frees = total(sent.chain([words.of("heapless_frees")?]));
    let received = total(m.classes.iter().map(|c| c.remote_frees));
    m.in_flight = m.remote_frees.saturating_sub(received);
    m.large_hits = heaps.sum("heap.large_hits")?;
    m.large_allocations = total([heaps.sum("heap.large_fresh")?, m.large_hits]);
    let kept_hits = heaps.sum("heap.huge_hits")?;
    m.huge_allocations = total([words.of("huge_allocated")?, kept_hits]);
    m.huge_hits = total([words.of("huge_hits")?, kept_hits]);
    let small = by_owners.saturating_add(i128::from(m.remote_frees));
    m.frees = total([
        u64::try_from(small.max(0)).unwrap_or(u64::MAX),
        heaps.sum("heap.large_freed")?,
        words.of("stray_large_frees")?,
        words.of("huge_returned")?,
        heaps.sum("heap.huge_puts")?,
    ]);
    let others = [m.large_allocations, m.huge_allocations];
    m.allocations = total(m.classes.iter().map(|c| c.allocations).chain(others));
    m.refills = total(m.classes.iter().flat_map(|c| [c.takes, c.carves]));
    m.foreign_frees = words.of("foreign_frees")?;
    Ok(())
}

/// Adds what memory is used for. The classes and the slots are there already.
fn add_memory(m: &mut Moment, words: &Words, heaps: &Heaps) -> io::Result<()> {
    // What heaps keep counts as live in the books, and what they may keep as cached.
    let kept = heaps.sum("heap.huge_kept")?;
    let unused = heaps.sum("heap.huge_allowed")?.saturating_sub(kept);
    let larger = [
        m.large_slots.saturating_mul(SLOT_BYTES),
        words.signed("huge_live")?.saturating_sub(kept),
    ];
    m.live_bytes = total(m.classes.iter().map(|c| c.live_bytes).chain(larger));
    // Each heap tells the total only of changes of 1 MiB.
    let untold = heaps.signed_sum("heap.live")?;
    let bound = i128::from(words.signed("live")?) + untold - i128::from(kept);
    m.peak_live_bytes_upper_bound = words.signed("peak_live")?.max(heaps::count(bound));
    m.reserved_bytes = words.of("reserved")?;
    m.committed_bytes = words.of("committed")?;
    m.dirty_bytes = total([
        words.signed("dirty")?,
        words.signed("huge_cached")?.saturating_sub(unused),
        words.of("parked_fresh_slots")?.saturating_mul(SLOT_BYTES),
    ]);
    m.purged_bytes = words.of("purged")?;
    // An older library does not say it.
    if let (Ok(held), Ok(refused)) = (words.of("held"), words.of("refused")) {
        (m.held_bytes, m.refused) = (Some(held), refused);
        m.hard_limit_bytes = words.option("HARD_LIMIT_MIB")? << 20;
    }
    Ok(())
}

fn syscalls(memory: Memory, note: &Note) -> io::Result<Vec<Syscall>> {
    let kinds = note.number("syscall_kinds", 1..=64)?;
    let bytes = note.number("syscall_bytes", 24..=4096)?;
    let counters = memory.bytes(note.place("syscalls")?, kinds * bytes)?;
    let names = note.all("syscall.", kinds);
    Ok(names
        .into_iter()
        .map(|(name, kind)| {
            let of = |n: usize| u64_at(&counters, kind * bytes + n * 8);
            Syscall {
                name: checked::name(name),
                calls: of(0),
                failures: of(1),
                nanos: of(2),
            }
        })
        .collect())
}

/// Bytes of the segments that are resident.
fn resident(memory: Memory, segments: &[Segment]) -> u64 {
    let runs = segments.iter().map(|segment| match segment.body {
        Body::Huge { span, .. } => (segment.address, span),
        Body::Slots(_) => (segment.address, 1),
    });
    let all = runs.clone().map(|(_, n)| n).sum();
    let resident = Resident::of(memory.source).ok();
    resident.and_then(|r| r.bytes(runs, all)).unwrap_or(0)
}
