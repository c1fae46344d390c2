//! One workload, and how much of it runs.

use crate::meter::Meter;

/// One workload, compiled for one allocator.
#[derive(Debug)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// Operations of a full run.
    pub ops: u64,
    /// Threads that work at the same time.
    pub threads: u32,
    /// What one operation is and what happens around it.
    pub what: &'static str,
    /// Where the idea comes from.
    pub source: &'static str,
    /// Runs that many operations, at least 1, and measures them.
    pub run: fn(u64, &mut Meter),
}

/// How much of a workload to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// For figures.
    Full,
    /// A fifth of it, for a look.
    Quick,
    /// Hardly anything: does it run at all?
    Smoke,
}

impl Workload {
    /// The number of operations at `scale`.
    pub fn ops_at(&self, scale: Scale) -> u64 {
        match scale {
            Scale::Full => self.ops,
            Scale::Quick => (self.ops / 5).max(1),
            Scale::Smoke => (self.ops / 2000).max(1),
        }
    }
}
