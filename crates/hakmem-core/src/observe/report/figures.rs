//! The content of a report, the same for all forms. JSON, CSV and XML differ in how they write it.

use super::usage::Usage;
use crate::observe::stats::{self, Named, Snapshot, Stats};
use core::fmt;

/// The version of the keys. It rises when a key changes its meaning or goes, but not for new keys.
pub const SCHEMA: u32 = 2;
/// Heaps that have an item of their own in the report, thread heaps and program heaps each. The
/// totals include all heaps.
const MOST_HEAPS: usize = 256;

/// A form of report.
pub trait Form {
    /// Writes a text of the item that was begun. It needs no quoting in any form.
    fn text(&mut self, name: &'static str, value: &str) -> fmt::Result;
    /// Writes a figure of the item that was begun, or of the process if there is none.
    fn figure(&mut self, name: &'static str, value: u64) -> fmt::Result;
    /// Begins a list of items.
    fn begin(&mut self, list: &'static str) -> fmt::Result;
    /// Begins an item of the list. The key is its name or its number.
    fn item(&mut self, list: &'static str, key: Key) -> fmt::Result;
    /// Ends the item.
    fn end_item(&mut self) -> fmt::Result;
    /// Ends the list.
    fn end(&mut self) -> fmt::Result;
}

/// The key of an item, which no other item of its list has.
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

/// All that a report says of one moment. The totals are read before the resident bytes, because
/// that question makes system calls, which the totals count.
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

    /// For signal handlers: takes no lock.
    pub fn take_from_outside() -> Self {
        Self::of(Snapshot::take_from_outside())
    }

    #[inline(never)]
    fn of(snapshot: Snapshot) -> Self {
        let (stats, usage) = (snapshot.process(), Usage::now());
        Self { snapshot, stats, usage, resident_bytes: stats::resident_bytes() }
    }

    /// Writes the figures. One function serves all forms, so that every process has less code.
    #[inline(never)]
    pub fn write(&self, form: &mut dyn Form) -> fmt::Result {
        let (snapshot, u) = (&self.snapshot, &self.usage);
        all(form, snapshot.figures(&self.stats))?;
        form.figure("resident_bytes", self.resident_bytes)?;
        form.figure("peak_resident_bytes", u.peak_resident_kib << 10)?;
        form.figure("peak_resident_kib", u.peak_resident_kib)?;
        form.figure("minor_faults", u.minor_faults)?;
        form.figure("major_faults", u.major_faults)?;
        form.figure("cpu_nanos", u.cpu_nanos)?;
        form.begin("classes")?;
        for class in snapshot.used_classes() {
            item(form, "classes", "size", Word::Number(class.size), class.figures())?;
        }
        form.end()?;
        form.begin("thread_heaps")?;
        for (i, heap) in snapshot.heaps().take(MOST_HEAPS).enumerate() {
            item(form, "thread_heaps", "heap", Word::Number(i as u64), heap.figures())?;
        }
        form.end()?;
        form.begin("program_heaps")?;
        for (i, heap) in snapshot.program_heaps().take(MOST_HEAPS).enumerate() {
            form.item("program_heaps", Key { name: "heap", value: Word::Number(i as u64) })?;
            form.text("name", heap.name())?;
            all(form, heap.figures())?;
            form.end_item()?;
        }
        form.end()?;
        form.begin("syscalls")?;
        for call in self.stats.syscalls() {
            item(form, "syscalls", "name", Word::Text(call.name), call.figures())?;
        }
        form.end()?;
        form.begin("decisions")?;
        for d in stats::decisions() {
            item(form, "decisions", "option", Word::Text(d.what.name()), d.figures())?;
        }
        form.end()?;
        form.begin("foreign_sites")?;
        for site in snapshot.foreign_sites() {
            item(
                form,
                "foreign_sites",
                "address",
                Word::Address(site.address),
                [("frees", site.frees)],
            )?;
        }
        form.end()
    }
}

fn all(form: &mut dyn Form, figures: impl IntoIterator<Item = Named>) -> fmt::Result {
    figures.into_iter().try_for_each(|(name, value)| form.figure(name, value))
}

fn item(
    form: &mut dyn Form,
    list: &'static str,
    name: &'static str,
    value: Word,
    figures: impl IntoIterator<Item = Named>,
) -> fmt::Result {
    form.item(list, Key { name, value })?;
    all(form, figures)?;
    form.end_item()
}
