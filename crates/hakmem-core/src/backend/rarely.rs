//! Events of which ever fewer are let through while they turn out to be in vain.
//!
//! Rules
//! 1. All words are hints. Threads may lose each other's changes.

use crate::base::sync::{AtomicUsize, Ordering::Relaxed};

/// The most events that are passed over in a row.
const LONGEST: usize = 63;

/// Events that are passed over: in a row, and what is left of them.
pub struct Rarely {
    row: AtomicUsize,
    left: AtomicUsize,
    /// The first row has so many.
    least: usize,
}

impl Rarely {
    pub const fn new(least: usize) -> Self {
        Self { row: AtomicUsize::new(0), left: AtomicUsize::new(0), least }
    }

    /// True if this event is passed over.
    pub fn passes_over(&self) -> bool {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(1), Relaxed);
        left != 0
    }

    /// Passes over about twice as many events as last time, or none.
    pub fn begin(&self, longer: bool) {
        let twice = (2 * self.row.load(Relaxed) + 1).clamp(self.least, LONGEST);
        let events = if longer { twice } else { 0 };
        self.row.store(events, Relaxed);
        self.left.store(events, Relaxed);
    }
}
