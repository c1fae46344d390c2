//! Counts, failures and time of system calls by kind.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::{AtomicBool, AtomicU64};

/// The kinds of system calls that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(any(miri, shuttle), allow(dead_code, reason = "not every checker has them all"))]
pub enum Kind {
    /// Reserving address space.
    Mmap,
    /// Making memory accessible.
    Mprotect,
    /// Giving memory back, populating, huge pages.
    Madvise,
    /// Moving page tables.
    Mremap,
    /// Asking what is resident: mincore, or to open, read and close `/proc/self/pagemap`.
    Pagemap,
    /// Waiting for and waking threads.
    Futex,
    /// Making the scavenger.
    Clone,
    /// Asking for limits and sizes.
    Query,
}

/// How many kinds there are.
pub const KINDS: usize = 8;

const NAMES: [&str; KINDS] =
    ["mmap", "mprotect", "madvise", "mremap", "pagemap", "futex", "clone", "query"];

pub struct Counter {
    pub calls: AtomicU64,
    pub failures: AtomicU64,
    pub nanos: AtomicU64,
}

#[unsafe(link_section = ".data.hakmem")]
pub static COUNTERS: [Counter; KINDS] = [const {
    Counter { calls: AtomicU64::new(0), failures: AtomicU64::new(0), nanos: AtomicU64::new(0) }
}; KINDS];
#[unsafe(link_section = ".data.hakmem")]
static TIMING: AtomicBool = AtomicBool::new(false);

/// Switches the timing of system calls on or off.
pub fn set_timing(on: bool) {
    TIMING.store(on, Relaxed);
}

/// True if system calls are timed.
pub fn timing() -> bool {
    TIMING.load(Relaxed)
}

/// Runs `call` and counts it. A negative result is a failure: a negated error number.
pub(super) fn counted(kind: Kind, call: impl FnOnce() -> isize) -> isize {
    let counter = &COUNTERS[kind as usize];
    let timing = TIMING.load(Relaxed);
    let start = if timing { super::now_ns() } else { 0 };
    let result = call();
    if timing {
        counter.nanos.fetch_add(super::now_ns().wrapping_sub(start), Relaxed);
    }
    counter.calls.fetch_add(1, Relaxed);
    if result < 0 {
        counter.failures.fetch_add(1, Relaxed);
    }
    result
}

/// Name, calls, failures and nanoseconds of the `i`th kind.
pub fn count(i: usize) -> (&'static str, u64, u64, u64) {
    let c = &COUNTERS[i];
    (NAMES[i], c.calls.load(Relaxed), c.failures.load(Relaxed), c.nanos.load(Relaxed))
}
