//! The figures as values of serde, under the names that they have in reports.

use super::figures::Named;
use super::{
    Class, Decision, HeapUse, HeapWalk, ProgramHeap, Site, Snapshot, Stats, Syscall, ThreadHeap,
    What,
};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Adds figures to a struct that was begun.
fn add<S: SerializeStruct>(
    to: &mut S,
    figures: impl IntoIterator<Item = Named>,
) -> Result<(), S::Error> {
    figures.into_iter().try_for_each(|(name, value)| to.serialize_field(name, &value))
}

/// Serializes an item of a list: its key, then its figures.
fn item<S: Serializer, const N: usize>(
    serializer: S,
    name: &'static str,
    key: (&'static str, &impl Serialize),
    figures: [Named; N],
) -> Result<S::Ok, S::Error> {
    let mut item = serializer.serialize_struct(name, 1 + N)?;
    item.serialize_field(key.0, key.1)?;
    add(&mut item, figures)?;
    item.end()
}

/// The items of the iterator that the function returns.
struct List<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for List<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// What the JSON report has of a snapshot, under the same names: all but `schema`, `event` and
/// `pid`, and what the system says of the process (`resident_bytes`, `peak_resident_bytes`,
/// `peak_resident_kib`, `minor_faults`, `major_faults`, `cpu_nanos`). Each heap has its `state`,
/// too.
///
/// The feature `serde` has this. The totals are read at first, each item of a list when it is
/// written: what a serializer allocates meanwhile may be in it.
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::{Hakmem, stats::Snapshot};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// let blocks: Vec<Box<[u8; 100]>> = (0..1000).map(|_| Box::new([1; 100])).collect();
/// let figures = serde_json::to_value(Snapshot::take())?;
/// assert!(figures["live_bytes"].as_u64() >= Some(100_000));
/// let class = figures["classes"].as_array().unwrap().iter().find(|class| class["size"] == 112);
/// assert!(class.unwrap()["allocations"].as_u64() >= Some(1000));
/// assert_eq!(blocks.len(), 1000);
/// # Ok::<(), serde_json::Error>(())
/// ```
impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stats = self.process();
        let mut all = serializer.serialize_struct("Snapshot", self.figures(&stats).count() + 6)?;
        add(&mut all, self.figures(&stats))?;
        all.serialize_field("classes", &List(|| self.used_classes()))?;
        all.serialize_field(
            "thread_heaps",
            &List(|| self.heaps().enumerate().map(|(i, heap)| Numbered(i, heap))),
        )?;
        all.serialize_field(
            "program_heaps",
            &List(|| self.program_heaps().enumerate().map(|(i, heap)| Made(i, heap))),
        )?;
        all.serialize_field("syscalls", &List(|| stats.syscalls()))?;
        all.serialize_field("decisions", &List(super::decisions))?;
        all.serialize_field("foreign_sites", &List(|| self.foreign_sites()))?;
        all.end()
    }
}

/// The figures of the process, and `syscalls`. The feature `serde` has this, here and for all
/// others.
impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_struct("Stats", self.figures().len() + 1)?;
        add(&mut all, self.figures())?;
        all.serialize_field("syscalls", &List(|| self.syscalls()))?;
        all.end()
    }
}

/// As in the report, which has `thp_bytes` and not the number of segments.
impl Serialize for HeapWalk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_struct("HeapWalk", self.figures().len())?;
        add(&mut all, self.figures())?;
        all.end()
    }
}

/// An item of the report's `classes`.
impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        item(serializer, "Class", ("size", &self.size), self.figures())
    }
}

/// An item of the report's `thread_heaps` without its number, and with its `state`.
impl Serialize for ThreadHeap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        item(serializer, "ThreadHeap", ("state", &self.state), self.figures())
    }
}

/// A heap with its number.
struct Numbered(usize, ThreadHeap);

impl Serialize for Numbered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(number, heap) = self;
        let mut all = serializer.serialize_struct("ThreadHeap", heap.figures().len() + 2)?;
        all.serialize_field("heap", number)?;
        all.serialize_field("state", &heap.state)?;
        add(&mut all, heap.figures())?;
        all.end()
    }
}

/// An item of the report's `program_heaps` without its number.
impl Serialize for ProgramHeap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        item(serializer, "ProgramHeap", ("name", &self.name()), self.figures())
    }
}

/// A program heap with its number.
struct Made(usize, ProgramHeap);

impl Serialize for Made {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(number, heap) = self;
        let mut all = serializer.serialize_struct("ProgramHeap", heap.figures().len() + 2)?;
        all.serialize_field("heap", number)?;
        all.serialize_field("name", heap.name())?;
        add(&mut all, heap.figures())?;
        all.end()
    }
}

/// The word for it.
impl Serialize for HeapUse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// An item of the report's `syscalls`.
impl Serialize for Syscall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        item(serializer, "Syscall", ("name", &self.name), self.figures())
    }
}

/// An item of the report's `decisions`.
impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        item(serializer, "Decision", ("option", &self.what), self.figures())
    }
}

/// The option's name.
impl Serialize for What {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// An item of the report's `foreign_sites`; its address is a text, as there.
impl Serialize for Site {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        item(
            serializer,
            "Site",
            ("address", &format_args!("{:#x}", self.address)),
            [("frees", self.frees)],
        )
    }
}
