//! The probes of resident memory. They allocate, free, and then rest, during which the parent looks
//! at the process from outside: the allocator is not called any more.

mod blocked;
mod drift;
mod ended;
mod keep;
mod pages;
mod pool;
mod small;

use super::stage::Stage;
use crate::workloads::Scale;

/// One probe of memory.
#[derive(Debug)]
pub struct Body {
    name: &'static str,
    /// How much of it: blocks, threads or bytes.
    count: u64,
    run: fn(usize),
}

const fn body(name: &'static str, count: u64, run: fn(usize)) -> Body {
    Body { name, count, run }
}

const ALL: [Body; 12] = [
    body("nothing_preloaded", 0, |_| Stage::default().rest()),
    body("idle", 5_000_000, small::idle),
    body("sparse", 4_000_000, |count| small::sparse(count, false)),
    body("sparse_trim", 4_000_000, |count| small::sparse(count, true)),
    body("ended_200", 200, ended::run),
    body("blocked", 400_000_000, blocked::once),
    body("blocked_again", 400_000_000, blocked::twice),
    body("pool", 8_000_000, pool::run),
    body("pool_small", 8_000_000, pool::small),
    body("keep_runs", 300_000_000, keep::runs),
    body("keep_random", 300_000_000, keep::random),
    body("drift", 200_000_000, drift::run),
];

/// The probe called `name`.
pub fn find(name: &str) -> Option<&'static Body> {
    const { &ALL }.iter().find(|b| b.name == name)
}

impl Body {
    /// Runs it; returns once the parent has seen enough.
    pub fn run(&self, scale: Scale) {
        let count = match scale {
            Scale::Full => self.count,
            Scale::Quick => self.count / 5,
            Scale::Smoke => self.count / 100,
        };
        (self.run)(count as usize);
    }
}
