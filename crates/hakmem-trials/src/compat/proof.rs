//! What hakmem says of the processes that it served: lines of JSON, one when it is loaded, one at
//! exit.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The sum over all processes of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Processes that loaded it.
    pub loaded: usize,
    /// Processes that reported at exit: those that a signal or `_exit` ended do not.
    pub reported: usize,
    /// Blocks that these were given.
    pub allocations: u64,
    /// Pointers they freed that were not hakmem's.
    pub foreign_frees: u64,
}

#[derive(Deserialize)]
struct Event {
    event: String,
    pid: u32,
    #[serde(default)]
    allocations: u64,
    #[serde(default)]
    foreign_frees: u64,
}

impl Served {
    /// Sums up the lines, and says which of the `programs` (names and processes) did not load it.
    pub fn read(lines: &str, programs: &[(&str, u32)]) -> (Self, Vec<String>) {
        let events = lines
            .lines()
            .filter_map(|l| serde_json::from_str::<Event>(l).ok());
        let (mut served, mut loaded) = (Self::default(), BTreeSet::new());
        for event in events {
            if event.event == "load" {
                loaded.insert(event.pid);
            } else {
                served.reported += 1;
                served.allocations += event.allocations;
                served.foreign_frees += event.foreign_frees;
            }
        }
        served.loaded = loaded.len();
        let without = programs.iter().filter(|(_, pid)| !loaded.contains(pid));
        (
            served,
            without.map(|(name, _)| (*name).to_owned()).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_line_was_not_served() {
        let lines = "{\"schema\":2,\"event\":\"load\",\"pid\":7}\nnonsense\n\
                     {\"schema\":2,\"event\":\"exit\",\"pid\":7,\"allocations\":12,\"foreign_frees\":1}\n\
                     {\"schema\":2,\"event\":\"exit\",\"pid\":8,\"allocations\":30}\n";
        let (served, without) = Served::read(lines, &[("a", 7), ("b", 9)]);
        let expected = Served {
            loaded: 1,
            reported: 2,
            allocations: 42,
            foreign_frees: 1,
        };
        assert_eq!(served, expected);
        assert_eq!(without, ["b"]);
    }
}
