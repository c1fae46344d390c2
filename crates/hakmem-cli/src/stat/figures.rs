//! The figures of one line of a report: `docs/observability.md` says what each means.

use crate::checked;
use serde::de::Error;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the lines that this program reads.
const SCHEMA: u32 = 2;

/// A process at one moment.
#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct Moment {
    pub event: String,
    pub pid: u32,
    pub allocations: u64,
    pub frees: u64,
    pub remote_frees: u64,
    pub in_flight: u64,
    pub refills: u64,
    pub large_allocations: u64,
    pub large_hits: u64,
    pub huge_allocations: u64,
    pub huge_hits: u64,
    pub live_bytes: u64,
    pub peak_live_bytes_upper_bound: u64,
    pub reserved_bytes: u64,
    pub committed_bytes: u64,
    pub resident_bytes: u64,
    pub dirty_bytes: u64,
    pub purged_bytes: u64,
    pub thp_bytes: u64,
    pub foreign_frees: u64,
    pub heaps: u64,
    pub running_heaps: u64,
    pub page_slots: u64,
    pub large_slots: u64,
    pub kept_slots: u64,
    pub dirty_slots: u64,
    pub clean_slots: u64,
    pub slotted_segments: u64,
    pub huge_segments: u64,
    pub cached_segments: u64,
    /// What counts against the hard limit; None: the process's hakmem does not say it. Then the
    /// limit and the requests that it refused are 0.
    #[serde(default)]
    pub held_bytes: Option<u64>,
    #[serde(default)]
    pub hard_limit_bytes: u64,
    #[serde(default)]
    pub refused: u64,
    pub peak_resident_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub cpu_nanos: u64,
    pub classes: Vec<Class>,
    pub thread_heaps: Vec<Heap>,
    /// None in the reports of a hakmem that has no such heaps.
    #[serde(default)]
    pub program_heaps: Vec<ProgramHeap>,
    pub syscalls: Vec<Syscall>,
    pub decisions: Vec<Decision>,
    pub foreign_sites: Vec<Site>,
}

#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct Class {
    pub size: u64,
    pub allocations: u64,
    pub frees: u64,
    pub remote_frees: u64,
    pub list_hits: u64,
    pub takes: u64,
    pub carves: u64,
    pub filled: u64,
    pub unfulled: u64,
    pub pages: u64,
    pub page_bytes: u64,
    pub live_bytes: u64,
    pub peak_bytes: u64,
}

#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct Heap {
    pub heap: u64,
    pub running: u64,
    pub listed: u64,
    pub takes: u64,
    pub carves: u64,
    pub next_pages: u64,
    pub pages_unparked: u64,
    pub cached_pages: u64,
    pub new_pages: u64,
    pub merges: u64,
    pub blocks_received: u64,
    pub blocks_sent: u64,
    pub batches_sent: u64,
    pub chains_sent: u64,
}

/// A heap that the program made.
#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct ProgramHeap {
    pub name: String,
    pub dropped: u64,
    pub live_bytes: u64,
    pub peak_live_bytes: u64,
    /// 0: there is none.
    pub limit_bytes: u64,
    pub allocations: u64,
    pub frees: u64,
    pub refused: u64,
    pub held_bytes: u64,
    pub reserved_bytes: u64,
}

impl ProgramHeap {
    /// The name for people.
    pub fn shown_name(&self) -> String {
        let name = match self.name.as_str() {
            "" => "(no name)",
            name => name,
        };
        let dropped = if self.dropped != 0 { " (dropped)" } else { "" };
        format!("{name}{dropped}")
    }
}

#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct Syscall {
    pub name: String,
    pub calls: u64,
    pub failures: u64,
    pub nanos: u64,
}

/// What mode `learn` changed, and what the round that decided it would have cost with either value.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Decision {
    pub option: String,
    pub at_ms: u64,
    pub from: u64,
    pub to: u64,
    pub round_ms: u64,
    pub from_fault_us: u64,
    pub from_hold_us: u64,
    pub to_fault_us: u64,
    pub to_hold_us: u64,
    pub from_rating: u64,
    pub to_rating: u64,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} to {}: {} + {} ms against {} + {} ms (faults + memory held) in {} ms, rated {} \
             against {}",
            self.option,
            self.from,
            self.to,
            self.from_fault_us / 1000,
            self.from_hold_us / 1000,
            self.to_fault_us / 1000,
            self.to_hold_us / 1000,
            self.round_ms,
            self.from_rating,
            self.to_rating
        )
    }
}

#[derive(Debug, Default, Clone, Deserialize, Serialize)]
pub struct Site {
    pub address: String,
    pub frees: u64,
}

/// What a line says.
pub enum Line {
    /// The library was loaded into this process.
    Load(u32),
    Report(Box<Moment>),
}

impl Line {
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Loaded {
            pid: u32,
        }
        Ok(match parse(line)? {
            Some(moment) => Self::Report(Box::new(moment)),
            None => Self::Load(serde_json::from_str::<Loaded>(line)?.pid),
        })
    }
}

/// None: a line that only says that the library was loaded.
pub fn parse(line: &str) -> Result<Option<Moment>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Header {
        schema: u32,
        event: String,
    }
    let header: Header = serde_json::from_str(line)?;
    if header.schema != SCHEMA {
        return Err(Error::custom("another schema"));
    }
    if header.event == "load" {
        return Ok(None);
    }
    let mut moment: Moment = serde_json::from_str(line)?;
    let syscalls = moment.syscalls.iter_mut().map(|c| &mut c.name);
    let options = moment.decisions.iter_mut().map(|d| &mut d.option);
    let sites = moment.foreign_sites.iter_mut().map(|s| &mut s.address);
    let heaps = moment.program_heaps.iter_mut().map(|h| &mut h.name);
    let names = syscalls.chain(options).chain(sites).chain(heaps);
    for name in names.chain([&mut moment.event]) {
        *name = checked::name(name);
    }
    Ok(Some(moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_report_are_shown_without_what_a_terminal_obeys() {
        let moment = Moment {
            event: "\u{9b}2J".into(),
            syscalls: vec![Syscall {
                name: format!("\u{1b}[2J{}", "x".repeat(70_000)),
                calls: u64::MAX,
                failures: 1,
                nanos: u64::MAX,
            }],
            foreign_sites: vec![Site {
                address: "\u{7}".into(),
                frees: 1,
            }],
            ..Moment::default()
        };
        let mut report = serde_json::to_value(moment).unwrap();
        let fields = report.as_object_mut().unwrap();
        for number in fields.values_mut().filter(|value| value.is_number()) {
            *number = 4_000_000_000u32.into();
        }
        fields.insert("schema".into(), SCHEMA.into());
        let line = report.to_string();
        let text = crate::stat::table::of(&parse(&line).unwrap().unwrap(), true, None);
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
        assert!(text.contains("?[2Jxxx") && text.len() < 10_000, "{text}");
    }
}
