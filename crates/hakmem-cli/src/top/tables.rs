//! The tables of the terminal, as rows of cells.

use super::rates::Rates;
use super::short::{bytes, count, rate};
use crate::columns::{self, Column, Table};
use crate::stat::figures::{Class, Heap, ProgramHeap, Syscall};
use crate::stat::table::percent;
use crate::summary::duration;
use crate::view::Reading;

/// Orders of the table of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Live,
    Rate,
    Unused,
    Size,
}

impl Order {
    const ALL: [Self; 4] = [Self::Live, Self::Rate, Self::Unused, Self::Size];

    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live bytes",
            Self::Rate => "allocations a second",
            Self::Unused => "unused bytes",
            Self::Size => "size",
        }
    }

    /// The name where there is little room.
    pub fn short(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Rate => "rate",
            Self::Unused => "unused",
            Self::Size => "size",
        }
    }

    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|&o| o == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

const fn column(head: &'static str, short: &'static str, rank: u8, means: &'static str) -> Column {
    Column {
        means,
        ..columns::column(head, short, rank)
    }
}

pub const ACTIVITY: [Column; 3] = [
    columns::column("", "", 0),
    columns::column("in all", "all", 1),
    columns::column("a second", "per s", 2),
];

pub const CLASSES: [Column; 9] = [
    column("size", "size", 0, "bytes of a block of the class"),
    column(
        "live",
        "live",
        1,
        "bytes of its blocks that the program has",
    ),
    column("pages", "pages", 5, "its pages"),
    column(
        "unused",
        "unused",
        3,
        "the part of its pages that is not in live blocks",
    ),
    column(
        "allocations",
        "allocs",
        4,
        "blocks allocated since the program began",
    ),
    column(
        "a second",
        "per s",
        2,
        "blocks allocated a second, since the last reading",
    ),
    column("frees", "frees", 7, "blocks freed"),
    column(
        "by others",
        "remote",
        6,
        "the part of the frees that other threads made",
    ),
    column(
        "list hits",
        "hits",
        8,
        "the part of the allocations that a thread's list served",
    ),
];

/// The table of classes.
pub fn classes(reading: &Reading, order: Order, rates: Option<&Rates>) -> Table {
    let mut all: Vec<&Class> = reading.moment.classes.iter().collect();
    let per_second = |c: &Class| rates.map(|r| r.classes.get(&c.size).copied().unwrap_or(0.0));
    all.sort_by_key(|c| {
        std::cmp::Reverse(match order {
            Order::Live => c.live_bytes,
            Order::Rate => per_second(c).unwrap_or(0.0) as u64,
            Order::Unused => c.page_bytes.saturating_sub(c.live_bytes),
            Order::Size => u64::MAX - c.size,
        })
    });
    let row = |c: &Class| {
        vec![
            c.size.to_string(),
            bytes(c.live_bytes),
            count(c.pages),
            percent(c.page_bytes.saturating_sub(c.live_bytes), c.page_bytes),
            count(c.allocations),
            rate(per_second(c)),
            count(c.frees),
            percent(c.remote_frees, c.frees),
            percent(c.list_hits, c.allocations),
        ]
    };
    Table::of(&CLASSES, all.into_iter().map(row))
}

pub const HEAPS: [Column; 10] = [
    column(
        "heap",
        "heap",
        0,
        "its number; a thread has a heap of its own",
    ),
    column("now", "now", 2, "whether a thread has it"),
    column("listed", "listed", 3, "blocks put on the thread's lists"),
    column(
        "a second",
        "per s",
        1,
        "the same a second, since the last reading",
    ),
    column("taken", "taken", 6, "refills of a list by freed blocks"),
    column("carved", "carved", 7, "refills of a list by fresh blocks"),
    column("new pages", "pages", 8, "pages that it claimed"),
    column(
        "received",
        "in",
        4,
        "its blocks that other threads freed, and that were merged",
    ),
    column(
        "sent",
        "out",
        5,
        "other heaps' blocks that its thread freed",
    ),
    column(
        "in batches",
        "batches",
        9,
        "in how many batches these were sent",
    ),
];

/// The table of heaps, the busiest first, numbered from the oldest.
pub fn heaps(reading: &Reading, rates: Option<&Rates>) -> Table {
    let all = &reading.moment.thread_heaps;
    let row = |(i, h): (usize, &Heap)| {
        let per_second = rates.and_then(|r| r.heaps.get(all.len() - 1 - i)).copied();
        let now = if h.running != 0 { "in use" } else { "idle" };
        vec![
            (all.len() - 1 - i).to_string(),
            now.to_owned(),
            count(h.listed),
            rate(per_second),
            count(h.takes),
            count(h.carves),
            count(h.new_pages),
            count(h.blocks_received),
            count(h.blocks_sent),
            count(h.chains_sent),
        ]
    };
    let mut busiest: Vec<_> = all.iter().enumerate().collect();
    busiest.sort_by_key(|(_, h)| std::cmp::Reverse(h.listed));
    Table::of(&HEAPS, busiest.into_iter().map(row))
}

pub const PROGRAMS: [Column; 8] = [
    column("name", "name", 0, "the name that the program gave it"),
    column("live", "live", 1, "bytes of its live blocks"),
    column("at peak", "peak", 3, "the most that these were"),
    column("limit", "limit", 2, "the most that they may be"),
    column(
        "refused",
        "refused",
        4,
        "requests that would have passed the limit",
    ),
    column("allocations", "allocs", 5, "blocks allocated"),
    column("frees", "frees", 6, "blocks that came back"),
    column("memory", "memory", 7, "bytes of the memory that it has"),
];

/// The table of the heaps that the program made, those with the most live bytes first.
pub fn programs(reading: &Reading) -> Table {
    let mut all: Vec<_> = reading.moment.program_heaps.iter().collect();
    all.sort_by_key(|h| std::cmp::Reverse(h.live_bytes));
    let row = |h: &ProgramHeap| {
        let limit = match h.limit_bytes {
            0 => "-".into(),
            n => bytes(n),
        };
        vec![
            h.shown_name(),
            bytes(h.live_bytes),
            bytes(h.peak_live_bytes),
            limit,
            count(h.refused),
            count(h.allocations),
            count(h.frees),
            bytes(h.held_bytes),
        ]
    };
    Table {
        names: true,
        ..Table::of(&PROGRAMS, all.into_iter().map(row))
    }
}

pub const CALLS: [Column; 6] = [
    column("call", "call", 0, "a system call that the allocator makes"),
    column("calls", "calls", 1, "how often it made it"),
    column(
        "a second",
        "per s",
        2,
        "the same a second, since the last reading",
    ),
    column("failed", "failed", 3, "how often it failed"),
    column("time", "time", 4, "time inside, with HAKMEM_TIMING=1"),
    column(
        "of its time",
        "share",
        5,
        "the part of the process's processor time",
    ),
];

/// The table of system calls.
pub fn calls(reading: &Reading, rates: Option<&Rates>) -> Table {
    let m = &reading.moment;
    let row = |c: &Syscall| {
        let timed = |text: String| if c.nanos > 0 { text } else { "-".into() };
        let per_second = rates.map(|r| r.calls.get(&c.name).copied().unwrap_or(0.0));
        vec![
            c.name.clone(),
            count(c.calls),
            rate(per_second),
            count(c.failures),
            timed(duration(c.nanos)),
            timed(percent(c.nanos, m.cpu_nanos)),
        ]
    };
    Table {
        names: true,
        ..Table::of(&CALLS, m.syscalls.iter().map(row))
    }
}
