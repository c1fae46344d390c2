//! One look: the figures of a report, made of what another process's memory says.

use super::decisions::{self, Decision};
use super::heaps::{Found, Heaps};
use super::memory::{Lists, Memory, u64_at};
use super::note::Note;
use super::process::Usage;
use super::segments::{self, Body, Resident, SEGMENT_BYTES, SLOT_BYTES, Segment, Use};
use crate::checked::{self, total};
use crate::stat::figures::{Moment, Syscall};
use std::io;

/// Pages of memory that are read to follow threads' lists, at most: some 20 ms.
const LISTS_BUDGET: u64 = 1 << 13;

/// What was seen at one moment.
#[derive(Debug, Clone)]
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
    let lists = heaps.lists()?;
    let mut segments = segments::read(memory, note)?;
    let follow = Lists::new(memory, LISTS_BUDGET);
    let (listed, whole) = segments::take_listed(&mut segments, &lists, &follow);
    Ok((segments, listed, whole))
}

/// Everything that `hakmem top` shows.
pub fn look(memory: Memory, note: &Note, pid: u32, usage: &Usage) -> io::Result<Look> {
    let word = |name| note.place(name).and_then(|at| memory.word(at));
    let signed = |name| word(name).map(|n: u64| n as i64).map(|n| n.max(0) as u64);
    let heaps = Heaps::read(memory, note)?;
    let (segments, listed, whole) = pages(memory, note, &heaps)?;

    let mut m = Moment::default();
    let mut waiting = vec![0; listed.len()];
    let mut page_bytes = vec![0; listed.len()];
    let mut on_lists = listed.clone();
    for segment in &segments {
        let thp = u64::from(segment.thp) * SEGMENT_BYTES;
        match &segment.body {
            Body::Huge { span, .. } => {
                m.huge_segments += span;
                m.thp_bytes += span * thp;
            }
            // The later segments of a run may never have been divided.
            Body::Slots(slots)
                if slots.iter().all(|s| matches!(s.used, Use::Kept))
                    || slots.iter().all(|s| matches!(s.used, Use::Clean)) =>
            {
                m.cached_segments += 1;
                m.thp_bytes += thp;
            }
            Body::Slots(slots) => {
                m.slotted_segments += 1;
                m.thp_bytes += thp;
                for slot in slots {
                    let span = u64::from(slot.span);
                    match slot.used {
                        Use::Clean => m.clean_slots += span,
                        Use::Dirty => m.dirty_slots += span,
                        Use::Kept => m.kept_slots += span,
                        Use::Large => m.large_slots += span,
                        Use::Page(page) => {
                            m.page_slots += span;
                            let class = usize::from(page.class);
                            waiting[class] += u64::from(page.carved - page.used);
                            page_bytes[class] += span * SLOT_BYTES;
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
    let sent = m.thread_heaps.iter().map(|h| h.blocks_sent);
    m.remote_frees = total(sent.chain([word("stray_frees")?]));
    m.in_flight = m
        .remote_frees
        .saturating_sub(total(classes.iter().map(|c| c.remote_frees)));
    m.large_allocations = heaps.sum("heap.large_allocated")?;
    m.large_hits = heaps.sum("heap.large_hits")?;
    m.huge_allocations = word("huge_allocated")?;
    m.huge_hits = word("huge_hits")?;
    let owners = freed_by_owners.saturating_add(i128::from(m.remote_frees));
    m.frees = total([
        u64::try_from(owners.max(0)).unwrap_or(u64::MAX),
        heaps.sum("heap.large_freed")?,
        word("stray_large_frees")?,
        word("huge_returned")?,
    ]);
    let others = [m.large_allocations, m.huge_allocations];
    m.allocations = total(classes.iter().map(|c| c.allocations).chain(others));
    m.refills = total(classes.iter().flat_map(|c| [c.takes, c.carves]));
    let larger = [
        m.large_slots.saturating_mul(SLOT_BYTES),
        signed("huge_live")?,
    ];
    m.live_bytes = total(classes.iter().map(|c| c.live_bytes).chain(larger));
    m.peak_live_bytes_upper_bound = signed("peak_live")?;
    m.reserved_bytes = word("reserved")?;
    m.committed_bytes = word("committed")?;
    m.dirty_bytes = total([
        word("dirty")?,
        signed("huge_cached")?,
        word("parked_fresh_slots")?.saturating_mul(SLOT_BYTES),
    ]);
    m.purged_bytes = word("purged")?;
    m.foreign_frees = word("foreign_frees")?;
    m.heaps = heaps.len() as u64;
    m.running_heaps = heaps.running()?;
    m.resident_bytes = resident(memory, &segments);
    m.peak_resident_kib = usage.peak_resident_kib;
    m.cpu_nanos = usage.cpu_nanos;
    m.classes = classes;
    m.classes
        .retain(|c| c.allocations > 0 || c.frees > 0 || c.pages > 0);
    m.syscalls = syscalls(memory, note)?;
    Ok(Look {
        moment: m,
        usage: usage.clone(),
        decisions: decisions::read(memory, note)?,
        whole,
    })
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
