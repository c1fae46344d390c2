//! Every figure of a report under its name, once for all forms: JSON, CSV and XML differ in how they write them.

use super::usage::Usage;
use crate::observe::stats::{self, Class, Decision, Heap, Snapshot, Stats};
use core::fmt;

/// Raised when a key changes its meaning or goes; new keys may come at any time.
pub const SCHEMA: u32 = 2;
/// Heaps that are reported one by one; the totals have them all.
const MOST_HEAPS: usize = 256;

/// A form of report.
pub trait Form {
    /// A figure of the process, or of the item that was begun.
    fn figure(&mut self, name: &'static str, value: u64) -> fmt::Result;
    /// A list of items begins.
    fn begin(&mut self, list: &'static str) -> fmt::Result;
    /// An item of the list begins; the key is its name, or else its number.
    fn item(&mut self, list: &'static str, key: Key) -> fmt::Result;
    /// The item ends.
    fn end_item(&mut self) -> fmt::Result;
    /// The list ends.
    fn end(&mut self) -> fmt::Result;
}

/// What tells the items of a list apart.
#[derive(Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub value: Word,
}

#[derive(Clone, Copy)]
pub enum Word {
    Number(u64),
    Text(&'static str),
    Address(usize),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Text(t) => f.write_str(t),
            Self::Address(a) => write!(f, "{a:#x}"),
        }
    }
}

/// All that is reported of one moment. The totals are taken first: asking what is resident makes system calls.
pub struct Figures {
    pub snapshot: Snapshot,
    pub stats: Stats,
    pub usage: Usage,
    pub resident_bytes: u64,
}

impl Figures {
    pub fn take() -> Self {
        Self::of(Snapshot::take())
    }

    /// In a signal handler.
    pub fn take_from_outside() -> Self {
        Self::of(Snapshot::take_from_outside())
    }

    #[inline(never)]
    fn of(snapshot: Snapshot) -> Self {
        let (stats, usage) = (snapshot.process(), Usage::now());
        Self { snapshot, stats, usage, resident_bytes: stats::resident_bytes() }
    }

    /// One copy for all forms: less code in every process.
    #[inline(never)]
    pub fn write(&self, form: &mut dyn Form) -> fmt::Result {
        self.process(form)?;
        form.begin("classes")?;
        for class in self.snapshot.classes() {
            if class.allocations + class.frees + class.pages > 0 {
                item(form, "classes", "size", Word::Number(class.size), |form| of_class(form, &class))?;
            }
        }
        form.end()?;
        form.begin("thread_heaps")?;
        for (i, heap) in self.snapshot.heaps().take(MOST_HEAPS).enumerate() {
            item(form, "thread_heaps", "heap", Word::Number(i as u64), |form| of_heap(form, &heap))?;
        }
        form.end()?;
        form.begin("syscalls")?;
        for call in self.stats.syscalls.iter().filter(|c| !c.name.is_empty()) {
            item(form, "syscalls", "name", Word::Text(call.name), |form| {
                form.figure("calls", call.calls)?;
                form.figure("failures", call.failures)?;
                form.figure("nanos", call.nanos)
            })?;
        }
        form.end()?;
        form.begin("decisions")?;
        for d in stats::decisions() {
            item(form, "decisions", "option", Word::Text(d.what.name()), |form| of_decision(form, &d))?;
        }
        form.end()?;
        form.begin("foreign_sites")?;
        for site in self.snapshot.foreign_sites() {
            item(form, "foreign_sites", "address", Word::Address(site.address), |form| {
                form.figure("frees", site.frees)
            })?;
        }
        form.end()
    }

    fn process(&self, form: &mut dyn Form) -> fmt::Result {
        let (s, u, c) = (&self.stats, &self.usage, self.snapshot.census());
        for (name, value) in [
            ("allocations", s.allocations),
            ("frees", s.frees),
            ("remote_frees", s.remote_frees),
            ("in_flight", s.in_flight),
            ("refills", s.refills),
            ("large_allocations", s.large_allocations),
            ("large_hits", s.large_hits),
            ("large_frees", s.large_frees),
            ("whale_allocations", s.whale_allocations),
            ("whale_hits", s.whale_hits),
            ("whale_frees", s.whale_frees),
            ("whale_cached_bytes", s.whale_cached_bytes),
            ("whale_live_bytes", s.whale_live_bytes),
            ("live_bytes", s.live_bytes),
            ("live_bytes_upper_bound", s.live_bytes_upper_bound),
            ("peak_live_bytes_upper_bound", s.peak_live_bytes_upper_bound),
            ("reserved_bytes", s.reserved_bytes),
            ("committed_bytes", s.committed_bytes),
            ("resident_bytes", self.resident_bytes),
            ("dirty_bytes", s.dirty_bytes),
            ("purged_bytes", s.purged_bytes),
            ("huge_bytes", c.huge_segments * stats::SEGMENT_BYTES as u64),
            ("foreign_frees", s.foreign_frees),
            ("heaps", s.heaps),
            ("running_heaps", self.snapshot.running_heaps()),
            ("slotted_segments", c.slotted_segments),
            ("whale_segments", c.whale_segments),
            ("reserve_segments", c.reserve_segments),
            ("cached_segments", c.cached_segments),
            ("page_slots", c.page_slots),
            ("large_slots", c.large_slots),
            ("kept_slots", c.kept_slots),
            ("empty_slots", c.empty_slots),
            ("unused_slots", c.unused_slots),
            ("learning", u64::from(stats::is_learning())),
            ("decided", stats::decided()),
            ("peak_resident_kib", u.peak_resident_kib),
            ("minor_faults", u.minor_faults),
            ("major_faults", u.major_faults),
            ("cpu_nanos", u.cpu_nanos),
        ] {
            form.figure(name, value)?;
        }
        Ok(())
    }
}

fn item(
    form: &mut dyn Form,
    list: &'static str,
    name: &'static str,
    value: Word,
    figures: impl FnOnce(&mut dyn Form) -> fmt::Result,
) -> fmt::Result {
    form.item(list, Key { name, value })?;
    figures(form)?;
    form.end_item()
}

fn of_class(form: &mut dyn Form, c: &Class) -> fmt::Result {
    for (name, value) in [
        ("allocations", c.allocations),
        ("frees", c.frees),
        ("remote_frees", c.remote_frees),
        ("list_hits", c.list_hits()),
        ("takes", c.takes),
        ("carves", c.carves),
        ("sleeps", c.sleeps),
        ("wakes", c.wakes),
        ("new_pages", c.new_pages),
        ("retained_pages", c.retained_pages),
        ("empty_pages", c.empty_pages),
        ("pages", c.pages),
        ("asleep_pages", c.asleep_pages),
        ("page_bytes", c.page_bytes),
        ("carved_bytes", c.carved_bytes),
        ("live_bytes", c.live_bytes),
        ("peak_bytes", c.peak_bytes),
    ] {
        form.figure(name, value)?;
    }
    Ok(())
}

fn of_decision(form: &mut dyn Form, d: &Decision) -> fmt::Result {
    for (name, value) in [
        ("at_ms", d.at_ms.into()),
        ("from", d.from.into()),
        ("to", d.to.into()),
        ("round_ms", d.round_ms.into()),
        ("from_fault_us", d.from_fault_us),
        ("from_hold_us", d.from_hold_us),
        ("to_fault_us", d.to_fault_us),
        ("to_hold_us", d.to_hold_us),
        ("from_rating", d.from_rating.unsigned_abs().into()),
        ("to_rating", d.to_rating.unsigned_abs().into()),
    ] {
        form.figure(name, value)?;
    }
    Ok(())
}

fn of_heap(form: &mut dyn Form, h: &Heap) -> fmt::Result {
    for (name, value) in [
        ("running", u64::from(h.state != stats::State::Idle)),
        ("handed", h.handed),
        ("takes", h.takes),
        ("carves", h.carves),
        ("next_pages", h.next_pages),
        ("holes_filled", h.holes_filled),
        ("sleeps", h.sleeps),
        ("wakes", h.wakes),
        ("new_pages", h.new_pages),
        ("retained_pages", h.retained_pages),
        ("empty_pages", h.empty_pages),
        ("pages_set_aside", h.pages_set_aside),
        ("pages_taken_back", h.pages_taken_back),
        ("merges", h.merges),
        ("parcels_received", h.parcels_received),
        ("blocks_received", h.blocks_received),
        ("blocks_sent", h.blocks_sent),
        ("parcels_sent", h.parcels_sent),
        ("batches_sent", h.batches_sent),
        ("large_allocations", h.large_allocations),
        ("large_hits", h.large_hits),
        ("large_frees", h.large_frees),
    ] {
        form.figure(name, value)?;
    }
    Ok(())
}
