//! What is in a report, once for all forms: JSON, CSV and XML differ in how they write the figures.

use super::usage::Usage;
use crate::observe::stats::{self, Named, Snapshot, Stats};
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
        let (snapshot, u) = (&self.snapshot, &self.usage);
        all(form, snapshot.figures(&self.stats))?;
        form.figure("resident_bytes", self.resident_bytes)?;
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
        form.begin("syscalls")?;
        for call in self.stats.named_syscalls() {
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
            item(form, "foreign_sites", "address", Word::Address(site.address), [("frees", site.frees)])?;
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
