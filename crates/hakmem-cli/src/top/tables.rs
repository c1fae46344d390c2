//! The tables of the terminal, as rows of cells.

use super::batch;
use super::rates::Rates;
use crate::stat::figures::{Class, Heap, Syscall};
use crate::stat::table::percent;
use crate::summary::{duration, grouped};
use crate::view::Look;

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

    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|&o| o == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// A head where columns are narrow.
pub fn short(head: &str) -> &str {
    match head {
        "allocations" => "allocs",
        "a second" => "per s",
        "by others" => "remote",
        "list hits" => "hits",
        "new pages" => "pages",
        "received" => "in",
        "sent" => "out",
        "in batches" => "batches",
        other => other,
    }
}

/// The table of classes.
pub fn classes(look: &Look, order: Order, rates: Option<&Rates>) -> Vec<Vec<String>> {
    let mut all: Vec<&Class> = look.moment.classes.iter().collect();
    let rate = |c: &Class| {
        rates
            .and_then(|r| r.classes.get(&c.size))
            .map_or(0, |&r| r as u64)
    };
    all.sort_by_key(|c| {
        std::cmp::Reverse(match order {
            Order::Live => c.live_bytes,
            Order::Rate => rate(c),
            Order::Unused => c.page_bytes.saturating_sub(c.live_bytes),
            Order::Size => u64::MAX - c.size,
        })
    });
    all.into_iter()
        .map(|c| batch::class(c, rates).to_vec())
        .collect()
}

/// Heads of the table of heaps.
pub const HEAP_HEADS: [&str; 10] = [
    "heap",
    "now",
    "handed",
    "a second",
    "taken",
    "carved",
    "new pages",
    "received",
    "sent",
    "in batches",
];

/// The table of heaps, the busiest first, numbered from the oldest.
pub fn heaps(look: &Look, rates: Option<&Rates>) -> Vec<Vec<String>> {
    let all = &look.moment.thread_heaps;
    let row = |(i, h): (usize, &Heap)| {
        let rate = rates.and_then(|r| r.heaps.get(all.len() - 1 - i)).copied();
        let now = if h.running != 0 { "in use" } else { "idle" };
        let row = [
            (all.len() - 1 - i).to_string(),
            now.to_owned(),
            grouped(h.handed),
            batch::rate(rate),
            grouped(h.takes),
            grouped(h.carves),
            grouped(h.new_pages),
            grouped(h.blocks_received),
            grouped(h.blocks_sent),
            grouped(h.batches_sent),
        ];
        row.to_vec()
    };
    let mut busiest: Vec<_> = all.iter().enumerate().collect();
    busiest.sort_by_key(|(_, h)| std::cmp::Reverse(h.handed));
    busiest.into_iter().map(row).collect()
}

/// Heads of the table of system calls.
pub const CALL_HEADS: [&str; 6] = ["call", "calls", "a second", "failed", "time", "of its time"];

/// The table of system calls.
pub fn calls(look: &Look, rates: Option<&Rates>) -> Vec<Vec<String>> {
    let m = &look.moment;
    let row = |c: &Syscall| {
        let timed = |text: String| if c.nanos > 0 { text } else { "-".into() };
        let row = [
            c.name.clone(),
            grouped(c.calls),
            batch::rate(rates.map(|r| r.calls.get(&c.name).copied().unwrap_or(0.0))),
            grouped(c.failures),
            timed(duration(c.nanos)),
            timed(percent(c.nanos, m.cpu_nanos)),
        ];
        row.to_vec()
    };
    m.syscalls.iter().map(row).collect()
}
