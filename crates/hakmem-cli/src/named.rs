//! Processes that a message names.

use std::collections::HashSet;

/// So many are named at most, and so many told apart.
const MOST_NAMED: usize = 8;
const MOST: usize = 1 << 18;

/// Numbers of processes, each of them once, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Named {
    first: Vec<u32>,
    all: HashSet<u32>,
}

impl Named {
    pub fn add(&mut self, pid: u32) {
        let is_new = self.all.len() < MOST && self.all.insert(pid);
        if is_new && self.first.len() < MOST_NAMED {
            self.first.push(pid);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether it is one process.
    pub fn is_one(&self) -> bool {
        self.all.len() == 1
    }

    /// "process 7", or "processes 7, 9", or eight of them "and 3 more".
    pub fn text(&self) -> String {
        let pids: Vec<_> = self.first.iter().map(u32::to_string).collect();
        let noun = if self.is_one() {
            "process"
        } else {
            "processes"
        };
        let more = match self.all.len() - self.first.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        format!("{noun} {}{more}", pids.join(", "))
    }
}

impl FromIterator<u32> for Named {
    fn from_iter<I: IntoIterator<Item = u32>>(pids: I) -> Self {
        let mut named = Self::default();
        pids.into_iter().for_each(|pid| named.add(pid));
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_once_and_not_all_are() {
        let of = |pids: &[u32]| pids.iter().copied().collect::<Named>().text();
        assert_eq!(of(&[7, 7]), "process 7");
        assert_eq!(of(&[7, 9, 7]), "processes 7, 9");
        assert_eq!(
            of(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            "processes 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"
        );
    }
}
