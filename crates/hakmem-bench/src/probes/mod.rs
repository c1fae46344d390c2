//! Probes: single figures of an allocator that no workload's time or peak memory shows, each from a
//! process of its own.
//!
//! Most of them are taken under preload: the child is the program of the system's allocator, whose
//! blocks come from `malloc`, so that a preloaded library serves them. That it does is checked in
//! the child.

pub mod child;
pub mod contender;
mod figures;
pub mod library;
pub mod memory;
pub mod purge;
pub mod runner;
pub mod stage;
mod under;
pub mod watch;

use std::time::Duration;

/// One probe.
#[derive(Debug)]
pub struct Probe {
    /// Its name on the command line and in records.
    pub name: &'static str,
    /// What is done, and what the figure says.
    pub what: &'static str,
    /// The unit of the figure.
    pub unit: &'static str,
    /// Whether it is short enough for a quick comparison.
    pub quick: bool,
    /// Whether it is taken on preloaded libraries.
    pub libraries: bool,
    /// On which of the built-in allocators it is taken, too.
    pub built_in: fn(&str) -> bool,
    /// Where the figure comes from.
    pub figure: Figure,
}

/// Where a probe's figure comes from.
#[derive(Debug, Clone, Copy)]
pub enum Figure {
    /// The time of the operations of the entry of this name in [`timed`](crate::workloads::timed),
    /// each divided by this many nanoseconds.
    PerOperation(f64),
    /// The time of all of them, in milliseconds.
    Total,
    /// Peak resident MiB of the process of the entry of this name in
    /// [`timed`](crate::workloads::timed).
    Peak,
    /// Resident MiB this long after the work; the name of the curve, if memory over time is of
    /// interest.
    Resident(Duration, Option<&'static str>),
    /// Resident memory at the end of each phase of the work, relative to what is live then; the
    /// name of the curve.
    Phases(&'static str),
    /// The times of single calls, of the entry of this name in [`timed`](crate::workloads::timed).
    Calls,
    /// The time with purging, relative to that without, of the loops in [`purge`].
    Purging,
}

const fn never(_: &str) -> bool {
    false
}

const fn always(_: &str) -> bool {
    true
}

const MIB: &str = "MiB";

/// The probe of what a process costs in which a workload runs; it is taken with every workload.
pub const NOTHING: &str = "nothing";

/// The same for a process under a library.
pub const NOTHING_PRELOADED: &str = "nothing_preloaded";

/// The curve of memory when everything is freed.
pub const ALL_FREED: &str = "resident memory, all freed";
/// The curve of memory when a few blocks stay.
pub const FEW_KEPT: &str = "resident memory, one block in 256 kept";

/// The curve of memory when a thread frees what another one, asleep, has allocated.
pub const BLOCKED: &str = "resident memory, freed by another thread";
/// The curve of memory of threads that have worked and wait.
pub const POOL: &str = "resident memory, 64 threads that wait";
/// The curve of memory while sizes change.
pub const DRIFT: &str = "resident memory, sizes that change";

/// All probes, in the order in which they are taken.
#[rustfmt::skip]
pub const ALL: &[Probe] = &[
    Probe { name: NOTHING, what: "a process of a workload that allocates nothing: its peak", unit: MIB, quick: true, libraries: false, built_in: always, figure: Figure::Peak },
    Probe { name: NOTHING_PRELOADED, what: "a process of a probe that allocates nothing: what is resident", unit: MIB, quick: true, libraries: true, built_in: never, figure: Figure::Resident(Duration::ZERO, None) },
    Probe { name: "pair_64k", what: "64 KiB, freed at once", unit: "ns", quick: true, libraries: true, built_in: never, figure: Figure::PerOperation(1.0) },
    Probe { name: "pair_256k", what: "256 KiB, freed at once", unit: "ns", quick: true, libraries: true, built_in: never, figure: Figure::PerOperation(1.0) },
    Probe { name: "pair_2m", what: "2 MiB, one byte written in every 4 KiB, freed at once", unit: "ns", quick: true, libraries: true, built_in: never, figure: Figure::PerOperation(1.0) },
    Probe { name: "rust_pair_64", what: "a constant layout of 64 B through GlobalAlloc, freed at once", unit: "ns", quick: true, libraries: false, built_in: always, figure: Figure::PerOperation(1.0) },
    Probe { name: "calloc_64m", what: "300 times 64 MiB of zeroes, one byte written, freed", unit: "ms", quick: false, libraries: true, built_in: never, figure: Figure::Total },
    Probe { name: "grow_1g", what: "three times a buffer from 1 MiB to 1 GiB by 1.5, written as it grows", unit: "ms", quick: false, libraries: true, built_in: |name| matches!(name, "mimalloc"), figure: Figure::Total },
    Probe { name: "threads_20k", what: "20,000 threads one after the other, each allocates and frees ten small blocks", unit: "µs", quick: false, libraries: true, built_in: never, figure: Figure::PerOperation(1000.0) },
    Probe { name: "ended_200", what: "200 threads at a time replace blocks of 16–1024 B, free all and end; resident right after", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::ZERO, None) },
    Probe { name: "idle", what: "5 M blocks of 120 B, all freed; resident after 2 s without a call, the table of 38 MiB included", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::from_secs(2), Some(ALL_FREED)) },
    Probe { name: "sparse", what: "4 M blocks of 120 B, one in 256 kept; resident after 2 s without a call", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::from_secs(2), Some(FEW_KEPT)) },
    Probe { name: "sparse_trim", what: "the same with malloc_trim at the start of the 2 s", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::from_secs(2), None) },
    Probe { name: "latency", what: "two threads replace blocks of 16 B–8 KiB, some of 64–512 KiB, and exchange some; each call", unit: "ns", quick: false, libraries: true, built_in: never, figure: Figure::Calls },
    Probe { name: "blocked", what: "a thread allocates 400 MB of 200 B, another frees them while it sleeps; resident after 3 s", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::from_secs(3), Some(BLOCKED)) },
    Probe { name: "blocked_again", what: "then it allocates as much again; resident at the end", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::ZERO, None) },
    Probe { name: "pool", what: "64 threads each allocate and free 8 MB of 16 B–32 KiB, then all wait; resident after 3 s", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::from_secs(3), Some(POOL)) },
    Probe { name: "pool_small", what: "the same with blocks of 16 B–1 KiB", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::from_secs(3), None) },
    Probe { name: "keep_runs", what: "300 MB of 16–256 B, every 20th run of 1,000 kept; resident after 4 s without a call", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::from_secs(4), None) },
    Probe { name: "keep_random", what: "300 MB of 16–256 B, one block in 20 kept at random; resident after 4 s without a call", unit: MIB, quick: false, libraries: true, built_in: never, figure: Figure::Resident(Duration::from_secs(4), None) },
    Probe { name: "drift", what: "200 MB live, random blocks replaced by other sizes, in six phases of 600 MB; resident", unit: "", quick: false, libraries: true, built_in: never, figure: Figure::Phases(DRIFT) },
    Probe { name: "purge_cost", what: "loops with purging, relative to the time without", unit: "", quick: false, libraries: false, built_in: never, figure: Figure::Purging },
];

/// One of several figures of a probe.
#[derive(Debug)]
pub struct Part {
    /// The probe's name, a colon and its own.
    pub name: &'static str,
    /// What it says.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

const fn part(name: &'static str, what: &'static str, unit: &'static str) -> Part {
    Part { name, what, unit }
}

/// The figures that a probe has beside one of its own name, or in place of it.
#[rustfmt::skip]
const PARTS: &[Part] = &[
    part("latency:p50", "half of the calls take no longer", "ns"),
    part("latency:p99", "99 % of them", "ns"),
    part("latency:p99.9", "99.9 % of them", "ns"),
    part("latency:p99.99", "99.99 % of them", "ns"),
    part("latency:max", "the longest call", "ns"),
    part("keep_runs:pages", "resident relative to the 4 KiB pages that hold a live block", ""),
    part("keep_random:pages", "resident relative to the 4 KiB pages that hold a live block", ""),
    part("drift:worst", "resident relative to what is live, at the worst phase", ""),
    part("drift:mean", "the mean of that over the phases", ""),
    part("drift:pages", "resident relative to the 4 KiB pages that hold a live block, at the worst phase", ""),
];

impl Probe {
    /// Its parts.
    pub fn parts(&self) -> impl Iterator<Item = &'static Part> {
        let mine = |part: &&Part| part.name.split(':').next() == Some(self.name);
        PARTS.iter().filter(mine)
    }
}

/// What the figure of this name says, and its unit.
pub fn described(figure: &str) -> Option<(&'static str, &'static str)> {
    let part = PARTS.iter().find(|p| p.name == figure);
    part.map(|p| (p.what, p.unit))
        .or_else(|| find(figure).map(|p| (p.what, p.unit)))
}

/// The probe called `name`.
pub fn find(name: &str) -> Option<&'static Probe> {
    ALL.iter().find(|p| p.name == name)
}

/// The names of all probes.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|p| p.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{self, timed};
    use std::alloc::System;

    #[test]
    fn every_probe_has_a_body_of_its_name() {
        for probe in ALL {
            assert_eq!(names().filter(|n| *n == probe.name).count(), 1);
            let timed = timed::table::<System>()
                .iter()
                .any(|w| w.name == probe.name);
            let resident = memory::find(probe.name).is_some();
            match probe.figure {
                Figure::PerOperation(_) | Figure::Total | Figure::Peak | Figure::Calls => {
                    assert!(timed, "{}", probe.name)
                }
                Figure::Resident(..) | Figure::Phases(_) => assert!(resident, "{}", probe.name),
                Figure::Purging => assert!(!timed && !resident),
            }
        }
    }
    #[test]
    fn every_part_belongs_to_a_probe() {
        let all: usize = ALL.iter().map(|probe| probe.parts().count()).sum();
        assert_eq!(all, PARTS.len());
        assert!(described("drift:mean").is_some() && described("idle").is_some());
        assert!(described("idle:mean").is_none());
        let latency = find("latency").expect("a probe").parts();
        let figures = workloads::latency::FIGURES.map(|(name, _)| format!("latency:{name}"));
        assert!(latency.map(|part| part.name).eq(figures));
    }
}
