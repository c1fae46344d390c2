//! What the library wrote about the processes it was loaded into.
//!
//! Each process appends one line of JSON when the library is loaded and one when its exit handlers
//! run. The process that was started is told from others by its pid. One pid can load the library
//! several times, by exec; a process made by fork alone has no load line.

use crate::checked::{self, Lines};
use serde::Deserialize;
use std::collections::HashMap;
use std::io::BufRead;

/// The version of the lines that this program reads.
const SCHEMA: u32 = 2;

/// Programs that are counted, and kinds of system calls of each: of more there is only the number.
const MOST: usize = 1 << 18;
const CALLS: usize = 64;

/// Figures of one process, from the line written at its exit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Figures {
    pub allocations: u64,
    pub frees: u64,
    /// From heaps that the program made. An older library does not say.
    #[serde(default)]
    pub program_allocations: u64,
    pub peak_live_bytes_upper_bound: u64,
    pub peak_resident_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    #[serde(default)]
    pub foreign_frees: u64,
    /// By the hard limit. An older library does not say.
    #[serde(default)]
    pub refused: u64,
    pub syscalls: Vec<Syscall>,
}

impl Figures {
    /// Allocations of any kind that hakmem served.
    pub fn served(&self) -> u64 {
        self.allocations.saturating_add(self.program_allocations)
    }
}

/// One kind of system call made by the library.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Syscall {
    pub name: String,
    pub calls: u64,
    pub failures: u64,
    pub nanos: u64,
}

#[derive(Deserialize)]
struct Header {
    schema: u32,
    event: Event,
    pid: u32,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Event {
    Load,
    Exit,
    Signal,
    Call,
}

/// One program image in one process.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    pub pid: u32,
    /// Made by fork, without a load line: its figures began in its parent.
    pub forked: bool,
    pub state: State,
}

#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// Loaded, and nothing heard since.
    Silent,
    /// Its process executed another program, which loaded the library in turn.
    Replaced,
    /// Ended through its exit handlers.
    Ended(Figures),
}

/// All that was reported.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of their first lines.
    pub images: Vec<Image>,
    /// Lines that make no sense, or are of more programs than are counted.
    pub unreadable: usize,
    /// By process: the image that nothing was heard of since it was loaded.
    open: HashMap<u32, usize>,
}

impl Report {
    pub fn read(text: impl BufRead) -> Self {
        let mut report = Self::default();
        let mut lines = Lines::new(text, crate::stat::LINE);
        loop {
            match lines.next() {
                Ok(Some(line)) if report.line(line).is_some() => {}
                Ok(Some(_)) => report.unreadable += 1,
                Ok(None) => return report,
                Err(_) => {
                    report.unreadable += 1;
                    return report;
                }
            }
        }
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let Header { schema, event, pid } = serde_json::from_str(line).ok()?;
        if schema != SCHEMA {
            return None;
        }
        match event {
            Event::Load => {
                if let Some(open) = self.open.remove(&pid) {
                    self.images[open].state = State::Replaced;
                }
                let number = self.add(Image {
                    pid,
                    state: State::Silent,
                    forked: false,
                })?;
                self.open.insert(pid, number);
            }
            Event::Signal | Event::Call => {} // Of a program that goes on.
            Event::Exit => {
                let mut figures: Figures = serde_json::from_str(line).ok()?;
                figures.syscalls.truncate(CALLS);
                figures.syscalls.shrink_to_fit();
                for call in &mut figures.syscalls {
                    call.name = checked::name(&call.name);
                }
                let state = State::Ended(figures);
                match self.open.remove(&pid) {
                    Some(open) => self.images[open].state = state,
                    None => {
                        self.add(Image {
                            pid,
                            forked: true,
                            state,
                        })?;
                    }
                }
            }
        }
        Some(())
    }

    fn add(&mut self, image: Image) -> Option<usize> {
        let number = self.images.len();
        (number < MOST).then(|| self.images.push(image))?;
        Some(number)
    }

    /// The last image of the process.
    pub fn last_of(&self, pid: u32) -> Option<&Image> {
        self.images.iter().rev().find(|i| i.pid == pid)
    }

    /// Figures of all images that ended through their exit handlers.
    pub fn figures(&self) -> impl Iterator<Item = &Figures> {
        self.images.iter().filter_map(|i| match &i.state {
            State::Ended(figures) => Some(figures),
            _ => None,
        })
    }

    /// The number of different processes.
    pub fn processes(&self) -> usize {
        let mut pids: Vec<_> = self.images.iter().map(|i| i.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids.len()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn load(pid: u32) -> String {
        format!("{{\"schema\":2,\"event\":\"load\",\"pid\":{pid}}}\n")
    }

    pub fn exit(pid: u32, allocations: u64) -> String {
        format!(
            "{{\"schema\":2,\"event\":\"exit\",\"pid\":{pid},\"allocations\":{allocations},\"frees\":1,\"live_bytes\":5,\
             \"peak_live_bytes_upper_bound\":2048,\"reserved_bytes\":0,\"committed_bytes\":0,\"dirty_bytes\":0,\"purged_bytes\":0,\
             \"foreign_frees\":0,\"heaps\":1,\"peak_resident_kib\":3072,\"minor_faults\":1234,\"major_faults\":0,\
             \"syscalls\":[{{\"name\":\"mmap\",\"calls\":2,\"failures\":1,\"nanos\":1500}}]}}\n"
        )
    }

    pub fn read(text: String) -> Report {
        Report::read(text.as_bytes())
    }

    fn allocations(report: &Report) -> Vec<(u32, Option<u64>)> {
        let of = |i: &Image| match &i.state {
            State::Ended(f) => Some(f.allocations),
            _ => None,
        };
        report.images.iter().map(|i| (i.pid, of(i))).collect()
    }

    #[test]
    fn exec_starts_a_new_image_of_the_same_process() {
        let report = read(load(7) + &load(7) + &exit(7, 3));
        assert_eq!(report.images[0].state, State::Replaced);
        assert_eq!(allocations(&report), [(7, None), (7, Some(3))]);
        assert_eq!(report.last_of(7), report.images.get(1));
        assert_eq!(report.processes(), 1);
    }

    #[test]
    fn a_forked_process_only_exits() {
        let report = read(load(7) + &exit(8, 2) + &exit(7, 3));
        assert_eq!(allocations(&report), [(7, Some(3)), (8, Some(2))]);
        assert_eq!(report.figures().map(|f| f.allocations).sum::<u64>(), 5);
        assert_eq!(report.processes(), 2);
        assert!(!report.images[0].forked && report.images[1].forked);
    }

    #[test]
    fn lines_that_make_no_sense_are_counted_and_change_nothing() {
        let torn = &exit(7, 3)[..40];
        let newer = load(7).replace("\"schema\":2", "\"schema\":3");
        let report = read(load(7) + "\n" + &newer + torn);
        assert_eq!(report.unreadable, 3);
        assert_eq!(
            report.images,
            [Image {
                pid: 7,
                forked: false,
                state: State::Silent
            }]
        );
        assert_eq!(report.last_of(8), None);
    }
}
