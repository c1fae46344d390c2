//! The counters of another process's thread heaps: what `stats::class` and `stats::heap` of the
//! core make of them.

use super::memory::{Memory, u32_at, u64_at};
use super::note::Note;
use crate::checked::{refuse, total};
use crate::stat::figures::{Class, Heap};
use std::collections::HashSet;
use std::io;
use std::ops::RangeInclusive;

/// A heap that a thread has: the bit of its state.
const LIVE: u32 = 1 << 31;
/// Bytes of heaps that are read and kept: 12,288 of 8 KiB.
const MOST: usize = 96 << 20;
/// Classes there may be, and events that are counted.
pub const CLASSES: RangeInclusive<usize> = 1..=64;
const EVENTS: RangeInclusive<usize> = 1..=64;

/// All heaps there ever were, newest first, each read in one piece.
pub struct Heaps<'a> {
    memory: Memory<'a>,
    note: &'a Note,
    all: Vec<Vec<u8>>,
    /// Where they are.
    places: Vec<u64>,
    /// Of a heap.
    bytes: usize,
    classes: usize,
    events: usize,
    half: i128,
    lists: Lists,
}

/// Where the lists of a heap are, and what they say.
struct Lists {
    at: usize,
    /// Bytes of a list.
    each: usize,
    until_slow: usize,
    most: usize,
    /// The first class whose blocks malloc counts as it takes them again, and the counters from it
    /// on.
    first: usize,
    reused: usize,
}

impl Lists {
    fn of(note: &Note, classes: usize, bytes: usize) -> io::Result<Self> {
        let each = note.number("list_bytes", 16..=256)?;
        let first = note.number("first_long", 0..=classes)?;
        Ok(Self {
            at: note.field("heap.lists", classes * each, bytes)?,
            each,
            until_slow: note.field("list.until_slow", 4, each)?,
            most: note.field("list.most", 4, each)?,
            first,
            reused: note.field("heap.reused", (classes - first) * 8, bytes)?,
        })
    }

    /// Blocks of `class` that came onto the list by a free, and are there or were taken again.
    fn freed_to(&self, heap: &[u8], class: usize) -> i128 {
        let reused = match class.checked_sub(self.first) {
            Some(i) => u64_at(heap, self.reused + i * 8),
            None => 0,
        };
        let list = self.at + class * self.each;
        let word = |at| i128::from(u32_at(heap, list + at) as i32);
        let kept = word(self.most) - word(self.until_slow);
        i128::from(reused) + kept.max(0)
    }
}

/// What was found in pages and lists, by class.
pub struct Found {
    /// Freed, and waiting in pages.
    pub waiting: Vec<u64>,
    /// On threads' lists.
    pub listed: Vec<u64>,
}

/// A difference of counters as a count: what was read at different moments may be less than
/// nothing.
pub fn count(n: i128) -> u64 {
    u64::try_from(n.max(0)).unwrap_or(u64::MAX)
}

impl<'a> Heaps<'a> {
    pub fn read(memory: Memory<'a>, note: &'a Note) -> io::Result<Self> {
        let bytes = note.size("heap_bytes")?;
        let next = note.field("heap.next", 8, bytes)?;
        let (mut all, mut places, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut heap = memory.word(note.place("heaps")?)?;
        while heap != 0 {
            if !seen.insert(heap) {
                return Err(refuse("its list of heaps leads in a circle"));
            }
            if !heap.is_multiple_of(8) {
                return Err(refuse("a heap of it lies where none can"));
            }
            if (all.len() + 1) * bytes > MOST {
                return Err(refuse("it has more heaps than are looked at"));
            }
            places.push(heap);
            let read = memory.bytes(heap, bytes)?;
            heap = u64_at(&read, next);
            all.push(read);
        }
        let classes = note.number("classes", CLASSES)?;
        Ok(Self {
            memory,
            note,
            all,
            places,
            bytes,
            classes,
            events: note.number("events", EVENTS)?,
            half: note.number("half", 1..=1 << 32)? as i128,
            lists: Lists::of(note, classes, bytes)?,
        })
    }

    /// Where an array of `n` numbers of `each` bytes begins in a heap.
    fn array(&self, name: &str, n: usize, each: usize) -> io::Result<usize> {
        self.note.field(name, n * each, self.bytes)
    }

    fn event(&self, name: &str) -> io::Result<usize> {
        self.note.number(name, 0..=self.events - 1)
    }

    /// Each heap's lists that are not empty: their class, and where their first block stands.
    pub fn lists(&self) -> Vec<(usize, u64)> {
        let at = |class: usize| self.lists.at + class * self.lists.each;
        let heaps = self.all.iter().zip(&self.places);
        let lists = heaps.flat_map(|(heap, place)| {
            let listed = (0..self.classes).filter(move |&class| u64_at(heap, at(class)) != 0);
            listed.map(move |class| (class, place.saturating_add(at(class) as u64)))
        });
        lists.collect()
    }

    /// How many of them a thread has.
    pub fn running(&self) -> io::Result<u64> {
        let at = self.array("heap.state", 1, 4)?;
        let running = self.all.iter().filter(|h| u32_at(h, at) & LIVE != 0);
        Ok(running.count() as u64)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// A counter of the heaps, summed.
    pub fn sum(&self, name: &str) -> io::Result<u64> {
        let at = self.array(name, 1, 8)?;
        Ok(total(self.all.iter().map(|heap| u64_at(heap, at))))
    }

    /// The sum of a number of the heaps that may be below 0.
    pub fn signed_sum(&self, name: &str) -> io::Result<i128> {
        let at = self.array(name, 1, 8)?;
        let numbers = self.all.iter().map(|heap| u64_at(heap, at) as i64);
        Ok(numbers.map(i128::from).sum())
    }

    /// The figures of each heap.
    pub fn figures(&self) -> io::Result<Vec<Heap>> {
        let state = self.array("heap.state", 1, 4)?;
        let moved = self.array("heap.moved", self.events, 4)?;
        let events = self.array("heap.events", self.classes * self.events, 4)?;
        // What is looked up by name is looked up once.
        let [
            next_pages,
            unparked,
            merges,
            sent,
            batches_sent,
            chains_sent,
        ] = [
            self.array("heap.next_pages", 1, 8)?,
            self.array("heap.unparked", 1, 8)?,
            self.array("heap.merges", 1, 8)?,
            self.array("heap.sent", 1, 8)?,
            self.array("heap.batches_sent", 1, 8)?,
            self.array("heap.chains_sent", 1, 8)?,
        ];
        let [handed, takes, carves, reuses, claims, received] = [
            self.event("event.listed")?,
            self.event("event.takes")?,
            self.event("event.carves")?,
            self.event("event.reuses")?,
            self.event("event.claims")?,
            self.event("event.received")?,
        ];
        let heaps = (0..).zip(&self.all).map(|(number, heap)| {
            let sum = |event: usize| {
                let halves = i128::from(u32_at(heap, moved + event * 4) as i32);
                let counters = (0..self.classes).map(|class| {
                    i128::from(u32_at(heap, events + (class * self.events + event) * 4))
                });
                count(halves * self.half + counters.sum::<i128>())
            };
            Heap {
                heap: number,
                running: u64::from(u32_at(heap, state) & LIVE != 0),
                listed: sum(handed).saturating_add(count(
                    (0..self.classes)
                        .map(|class| self.lists.freed_to(heap, class))
                        .sum(),
                )),
                takes: sum(takes),
                carves: sum(carves),
                next_pages: u64_at(heap, next_pages),
                pages_unparked: u64_at(heap, unparked),
                cached_pages: sum(reuses),
                new_pages: sum(claims),
                merges: u64_at(heap, merges),
                blocks_received: sum(received),
                blocks_sent: u64_at(heap, sent),
                batches_sent: u64_at(heap, batches_sent),
                chains_sent: u64_at(heap, chains_sent),
            }
        });
        Ok(heaps.collect())
    }

    /// The figures of each class, and the blocks found freed in all. `page_bytes` are those of the
    /// class's pages.
    pub fn classes(&self, found: &Found, page_bytes: &[u64]) -> io::Result<(Vec<Class>, i128)> {
        let (note, memory) = (self.note, self.memory);
        let sizes = sizes(memory, note)?;
        let moved = memory.bytes(note.place("moved")?, self.classes * self.events * 4)?;
        let each = note.size("before_bytes")?;
        let before = memory.bytes(note.place("before")?, self.classes * each)?;
        let blocks_before = note.field("before.blocks", 8, each)?;
        let pages_before = note.field("before.pages", 8, each)?;
        let per_class = |name| memory.words(note.place(name)?, self.classes);
        let (given_blocks, given_pages) =
            (per_class("parked_returned")?, per_class("parked_given")?);
        let (received, peak) = (per_class("parked_received")?, per_class("peak_of_class")?);
        let whole = per_class("parked_whole")?;
        let at_events = self.array("heap.events", self.classes * self.events, 4)?;
        let at_existing = self.array("heap.existing", self.classes, 8)?;
        let (mut classes, mut freed) = (Vec::new(), 0);
        for class in 0..self.classes {
            let event = |name: &str| {
                let at = (class * self.events + self.event(name)?) * 4;
                let halves = i128::from(u32_at(&moved, at) as i32);
                let counters = self
                    .all
                    .iter()
                    .map(|heap| i128::from(u32_at(heap, at_events + at)));
                Ok::<_, io::Error>(halves * self.half + counters.sum::<i128>())
            };
            let before = |at: usize| i128::from(u64_at(&before, class * each + at) as i64);
            let existing = self
                .all
                .iter()
                .map(|heap| i128::from(u64_at(heap, at_existing + class * 8) as i64));
            let existing: i128 = existing.sum();
            let [waiting, listed, given] =
                [&found.waiting, &found.listed, &given_blocks].map(|n| i128::from(n[class] as i64));
            let freed_to = self.all.iter().map(|heap| self.lists.freed_to(heap, class));
            let handed = event("event.listed")? + freed_to.sum::<i128>();
            let (takes, carves) = (event("event.takes")?, event("event.carves")?);
            let frees = handed - existing + before(blocks_before) + given + waiting;
            let pages = event("event.claims")? + event("event.reuses")? - event("event.empties")?
                + before(pages_before)
                - i128::from(given_pages[class] as i64);
            let by_others = event("event.received")?;
            freed += frees - by_others - i128::from(received[class] as i64);
            let live = count(existing - given - waiting - listed);
            classes.push(Class {
                size: sizes[class],
                allocations: count(handed - listed),
                frees: count(frees),
                remote_frees: count(by_others).saturating_add(received[class]),
                list_hits: count(handed - listed - takes - carves),
                takes: count(takes),
                carves: count(carves),
                filled: count(event("event.filled")?),
                unfulled: count(event("event.unfulled")?).saturating_add(whole[class]),
                pages: count(pages),
                page_bytes: page_bytes[class],
                live_bytes: live.saturating_mul(sizes[class]),
                peak_bytes: peak[class],
            });
        }
        Ok((classes, freed))
    }
}

/// The classes' block sizes.
pub fn sizes(memory: Memory, note: &Note) -> io::Result<Vec<u64>> {
    let classes = note.number("classes", CLASSES)?;
    let sizes = memory.bytes(note.place("sizes")?, classes * 4)?;
    let sizes = (0..classes).map(|class| u64::from(u32_at(&sizes, class * 4)));
    let sizes: Vec<_> = sizes.collect();
    match sizes.iter().all(|size| (1..=1 << 20).contains(size)) {
        true => Ok(sizes),
        false => Err(refuse("a size of its classes makes no sense")),
    }
}
