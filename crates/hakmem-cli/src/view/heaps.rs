//! The counters of another process's thread heaps: what `stats::class` and `stats::heap` of the core make of them.

use super::memory::{Memory, u32_at, u64_at};
use super::note::Note;
use crate::stat::figures::{Class, Heap};
use std::collections::HashSet;
use std::io;

/// A heap that a thread has: the bit of its tenure.
const LIVE: u32 = 1 << 31;

/// All heaps there ever were, newest first, each read in one piece.
pub struct Heaps<'a> {
    memory: Memory,
    note: &'a Note,
    all: Vec<Vec<u8>>,
    /// Where they are.
    places: Vec<u64>,
    classes: usize,
    events: usize,
    half: i64,
}

/// What was found in pages and lists, by class.
pub struct Found {
    /// Freed, and waiting in pages.
    pub waiting: Vec<u64>,
    /// On threads' lists.
    pub listed: Vec<u64>,
}

impl<'a> Heaps<'a> {
    pub fn read(memory: Memory, note: &'a Note) -> io::Result<Self> {
        let (bytes, next) = (note.number("heap_bytes")?, note.number("heap.next")?);
        let (mut all, mut places, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut heap = memory.word(note.place("heaps")?)?;
        while heap != 0 {
            if !seen.insert(heap) {
                return Err(io::Error::from_raw_os_error(libc::EFAULT));
            }
            places.push(heap);
            let read = memory.bytes(heap, bytes)?;
            heap = u64_at(&read, next);
            all.push(read);
        }
        Ok(Self {
            memory,
            note,
            all,
            places,
            classes: note.number("classes")?.min(64),
            events: note.number("events")?.min(64),
            half: note.number("half")? as i64,
        })
    }

    /// Each heap's lists that are not empty: their class, and where their first block stands.
    pub fn lists(&self) -> io::Result<Vec<(usize, u64)>> {
        let at = self.note.number("heap.lists")?;
        let heaps = self.all.iter().zip(&self.places);
        let lists = heaps.flat_map(|(heap, place)| {
            let listed = (0..self.classes).filter(move |class| u64_at(heap, at + class * 8) != 0);
            listed.map(move |class| (class, place + (at + class * 8) as u64))
        });
        Ok(lists.collect())
    }

    /// How many of them a thread has.
    pub fn running(&self) -> io::Result<u64> {
        let at = self.note.number("heap.tenure")?;
        Ok(self
            .all
            .iter()
            .filter(|h| u32_at(h, at) & LIVE != 0)
            .count() as u64)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// A counter of the heaps, summed.
    pub fn sum(&self, name: &str) -> io::Result<u64> {
        let at = self.note.number(name)?;
        Ok(self.all.iter().map(|heap| u64_at(heap, at)).sum())
    }

    /// The figures of each heap.
    pub fn figures(&self) -> io::Result<Vec<Heap>> {
        let n = |name: &str| self.note.number(name);
        let (tenure, moved, events) = (n("heap.tenure")?, n("heap.moved")?, n("heap.events")?);
        let mut figures = Vec::new();
        for (number, heap) in (0..).zip(&self.all) {
            let of = |name| Ok::<_, io::Error>(u64_at(heap, n(name)?));
            let sum = |name: &str| {
                let event = n(name)?;
                let halves = i64::from(u32_at(heap, moved + event * 4) as i32);
                let counters = (0..self.classes).map(|class| {
                    i64::from(u32_at(heap, events + (class * self.events + event) * 4))
                });
                Ok::<_, io::Error>((halves * self.half + counters.sum::<i64>()).max(0) as u64)
            };
            figures.push(Heap {
                heap: number,
                running: u64::from(u32_at(heap, tenure) & LIVE != 0),
                handed: sum("event.handed")?,
                takes: sum("event.takes")?,
                carves: sum("event.carves")?,
                next_pages: of("heap.next_pages")?,
                pages_taken_back: of("heap.taken_back")?,
                retained_pages: sum("event.reuses")?,
                new_pages: sum("event.claims")?,
                merges: of("heap.merges")?,
                blocks_received: sum("event.received")?,
                blocks_sent: of("heap.sent")?,
                parcels_sent: of("heap.parcels_sent")?,
                batches_sent: of("heap.batches_sent")?,
            });
        }
        Ok(figures)
    }

    /// The figures of each class, and the blocks found freed in all. `segment_pages` are slots of a page of the class.
    pub fn classes(&self, found: &Found, page_bytes: &[u64]) -> io::Result<(Vec<Class>, i64)> {
        let (note, memory) = (self.note, self.memory);
        let n = |name: &str| note.number(name);
        let sizes = memory.bytes(note.place("sizes")?, self.classes * 4)?;
        let moved = memory.bytes(note.place("moved")?, self.classes * self.events * 4)?;
        let each = n("before_bytes")?;
        let before = memory.bytes(note.place("before")?, self.classes * each)?;
        let per_class = |name| memory.words(note.place(name)?, self.classes);
        let (given_blocks, given_pages) =
            (per_class("sparse_returned")?, per_class("sparse_given")?);
        let (received, peak) = (per_class("sparse_received")?, per_class("peak_of_class")?);
        let (at_events, at_existing) = (n("heap.events")?, n("heap.existing")?);
        let (mut classes, mut freed) = (Vec::new(), 0);
        for class in 0..self.classes {
            let event = |name: &str| {
                let at = (class * self.events + n(name)?) * 4;
                let halves = i64::from(u32_at(&moved, at) as i32);
                let counters = self
                    .all
                    .iter()
                    .map(|heap| i64::from(u32_at(heap, at_events + at)));
                Ok::<_, io::Error>(halves * self.half + counters.sum::<i64>())
            };
            let before = |name| Ok::<_, io::Error>(u64_at(&before, class * each + n(name)?) as i64);
            let existing = self
                .all
                .iter()
                .map(|heap| u64_at(heap, at_existing + class * 8) as i64);
            let existing: i64 = existing.sum();
            let size = u64::from(u32_at(&sizes, class * 4));
            let (handed, waiting) = (event("event.handed")?, found.waiting[class] as i64);
            let listed = found.listed[class] as i64;
            let given = given_blocks[class] as i64;
            let (takes, carves) = (event("event.takes")?, event("event.carves")?);
            let frees = handed - existing + before("before.blocks")? + given + waiting;
            let pages = event("event.claims")? + event("event.reuses")? - event("event.empties")?
                + before("before.pages")?
                - given_pages[class] as i64;
            let count = |n: i64| n.max(0) as u64;
            freed += frees - event("event.received")? - received[class] as i64;
            classes.push(Class {
                size,
                allocations: count(handed - listed),
                frees: count(frees),
                remote_frees: count(event("event.received")?) + received[class],
                list_hits: count(handed - listed - takes - carves),
                takes: count(takes),
                carves: count(carves),
                sleeps: count(event("event.sleeps")?),
                wakes: count(event("event.wakes")?),
                pages: count(pages),
                page_bytes: page_bytes[class],
                live_bytes: count(existing - given - waiting - listed) * size,
                peak_bytes: peak[class],
            });
        }
        Ok((classes, freed))
    }
}
