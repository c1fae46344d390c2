//! One look: the figures of a report, made of what another process's memory says.

use super::decisions::{self, Decision};
use super::heaps::{Found, Heaps};
use super::memory::{Lists, Memory, u64_at};
use super::note::Note;
use super::process::Usage;
use super::segments::{self, Body, Resident, Segment, Use};
use crate::stat::figures::{Moment, Syscall};
use std::io;

/// Pages of memory that are read to follow threads' lists, at most: some 20 ms.
const LISTS_BUDGET: usize = 1 << 13;
/// Segments that are asked for what is resident: of more, a part is, and the rest estimated.
const ASKED: usize = 4096;

/// What was seen at one moment.
pub struct Look {
    pub moment: Moment,
    pub usage: Usage,
    pub decisions: Vec<Decision>,
    /// All lists of threads were followed: for a process at rest, the totals are exact.
    pub whole: bool,
}

/// The segments, with what is on threads' lists taken off; the blocks on lists by class; whether all could be followed.
pub fn pages(
    memory: Memory,
    note: &Note,
    heaps: &Heaps,
) -> io::Result<(Vec<Segment>, Vec<u64>, bool)> {
    let bytes = |name| note.number(name).map(|n| n as u64);
    let lists = heaps.lists()?;
    let mut segments = segments::read(memory, note)?;
    let follow = Lists::new(memory, LISTS_BUDGET);
    let (listed, whole) = segments::take_listed(
        &mut segments,
        &lists,
        note.number("classes")?.min(64),
        &follow,
        (bytes("slot_bytes")?, bytes("segment_bytes")?),
    );
    Ok((segments, listed, whole))
}

/// Everything that `hakmem top` shows.
pub fn look(memory: Memory, note: &Note, pid: u32, usage: &Usage) -> io::Result<Look> {
    let word = |name| note.place(name).and_then(|at| memory.word(at));
    let signed = |name| word(name).map(|n: u64| n as i64).map(|n| n.max(0) as u64);
    let (slot_bytes, segment_bytes) = (
        note.number("slot_bytes")? as u64,
        note.number("segment_bytes")? as u64,
    );
    let heaps = Heaps::read(memory, note)?;
    let (segments, listed, whole) = pages(memory, note, &heaps)?;

    let mut m = Moment::default();
    let mut waiting = vec![0; listed.len()];
    let mut page_bytes = vec![0; listed.len()];
    let mut on_lists = listed.clone();
    for segment in &segments {
        let huge = u64::from(segment.huge) * segment_bytes;
        match &segment.body {
            Body::Whale { span, .. } => {
                m.whale_segments += span;
                m.huge_bytes += span * huge;
            }
            // The later segments of a run may never have been divided.
            Body::Slots(slots)
                if slots.iter().all(|s| matches!(s.used, Use::Kept))
                    || slots.iter().all(|s| matches!(s.used, Use::Unused)) =>
            {
                m.cached_segments += 1;
                m.huge_bytes += huge;
            }
            Body::Slots(slots) => {
                m.slotted_segments += 1;
                m.huge_bytes += huge;
                for slot in slots {
                    let span = slot.span as u64;
                    match slot.used {
                        Use::Unused => m.unused_slots += span,
                        Use::Empty => m.empty_slots += span,
                        Use::Kept => m.kept_slots += span,
                        Use::Large => m.large_slots += span,
                        Use::Page(page) => {
                            m.page_slots += span;
                            if let Some(waiting) = waiting.get_mut(page.class) {
                                *waiting += page.carved - page.out;
                                page_bytes[page.class] += span * slot_bytes;
                            }
                        }
                    }
                }
            }
        }
    }
    // Of the blocks that pages are without, some are on lists, and were taken off there.
    for (waiting, listed) in waiting.iter_mut().zip(&mut on_lists) {
        *waiting -= (*listed).min(*waiting);
    }
    let found = Found { waiting, listed };
    let (classes, freed_by_owners) = heaps.classes(&found, &page_bytes)?;

    m.event = "this moment".into();
    m.pid = pid;
    m.thread_heaps = heaps.figures()?;
    let sent: u64 = m.thread_heaps.iter().map(|h| h.blocks_sent).sum();
    m.remote_frees = sent + word("stray_frees")?;
    m.in_flight = m
        .remote_frees
        .saturating_sub(classes.iter().map(|c| c.remote_frees).sum());
    m.large_allocations = heaps.sum("heap.large_handed")?;
    m.large_hits = heaps.sum("heap.large_hits")?;
    m.whale_allocations = word("whales_handed")?;
    m.whale_hits = word("whale_hits")?;
    let large_frees = heaps.sum("heap.large_returned")? + word("stray_large_frees")?;
    m.frees = (freed_by_owners + m.remote_frees as i64).max(0) as u64
        + large_frees
        + word("whales_returned")?;
    m.allocations = classes.iter().map(|c| c.allocations).sum::<u64>()
        + m.large_allocations
        + m.whale_allocations;
    m.refills = classes.iter().map(|c| c.takes + c.carves).sum();
    m.live_bytes = signed("live")?;
    m.peak_live_bytes = signed("peak_live")?;
    m.reserved_bytes = word("reserved")?;
    m.committed_bytes = word("committed")?;
    m.dirty_bytes =
        word("dirty")? + signed("whales_cached")? + word("sparse_fresh_slots")? * slot_bytes;
    m.purged_bytes = word("purged")?;
    m.foreign_frees = word("foreign_frees")?;
    m.heaps = heaps.len() as u64;
    m.running_heaps = heaps.running()?;
    m.resident_bytes = resident(pid, &segments, segment_bytes);
    m.peak_resident_kib = usage.peak_resident_kib;
    m.cpu_nanos = usage.cpu_nanos;
    m.classes = classes;
    m.classes.retain(|c| c.allocations + c.frees + c.pages > 0);
    m.syscalls = syscalls(memory, note)?;
    Ok(Look {
        moment: m,
        usage: usage.clone(),
        decisions: decisions::read(memory, note)?,
        whole,
    })
}

fn syscalls(memory: Memory, note: &Note) -> io::Result<Vec<Syscall>> {
    let (kinds, bytes) = (note.number("syscall_kinds")?, note.number("syscall_bytes")?);
    let counters = memory.bytes(note.place("syscalls")?, kinds.min(64) * bytes)?;
    let names = note.all("syscall.");
    Ok(names
        .into_iter()
        .map(|(name, kind)| {
            let of = |n: usize| u64_at(&counters, kind * bytes + n * 8);
            Syscall {
                name: name.to_owned(),
                calls: of(0),
                failures: of(1),
                nanos: of(2),
            }
        })
        .collect())
}

/// Bytes of the segments that are resident.
fn resident(pid: u32, segments: &[Segment], segment_bytes: u64) -> u64 {
    let Ok(resident) = Resident::open(pid) else {
        return 0;
    };
    let pieces: Vec<_> = segments
        .iter()
        .flat_map(|segment| {
            let n = match segment.body {
                Body::Whale { span, .. } => span,
                Body::Slots(_) => 1,
            };
            (0..n).map(move |i| segment.address + i * segment_bytes)
        })
        .collect();
    let step = pieces.len().div_ceil(ASKED).max(1);
    let (mut asked, mut bytes) = (0u64, 0u64);
    for &address in pieces.iter().step_by(step) {
        if let Ok(counts) = resident.count(address, segment_bytes, segment_bytes) {
            asked += 1;
            bytes += u64::from(counts[0]) * 4096;
        }
    }
    match asked {
        0 => 0,
        _ => (u128::from(bytes) * pieces.len() as u128 / u128::from(asked)) as u64,
    }
}
