//! A place for one thing, which its owner fills and any thread may empty.
//!
//! ```text
//!         put, by the owner
//! 0 (empty) ──────────────→ what it holds
//!    ↑───────── take ───────────┘
//! ```
//!
//! Rules
//! 1. Only the owner puts, and only into an empty place. So a place that the owner saw empty stays
//!    empty until the owner puts.
//! 2. A thread takes by a swap, so one thread gets what was put. It sees what the owner wrote
//!    before (release and acquire).
//!
//! Model: `tests/loom/place.rs`.

use crate::base::sync::{AtomicUsize, Ordering, const_new};

/// A place. All zero bytes are an empty one.
#[derive(Debug)]
pub struct Place(AtomicUsize);

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    const_new! {
        /// An empty place.
        pub fn new() -> Self {
            Self(AtomicUsize::new(0))
        }
    }

    /// What the place holds, 0 if nothing. Another thread may take it meanwhile.
    #[inline]
    pub fn peek(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Puts `what`, which is not 0. Only the owner calls this, after it saw the place empty.
    #[inline]
    pub fn put(&self, what: usize) {
        // Release: pairs with `take` (rule 2).
        self.0.store(what, Ordering::Release);
    }

    /// Takes what the place holds. 0: it is empty.
    #[inline]
    pub fn take(&self) -> usize {
        // Acquire: pairs with `put` (rule 2).
        self.0.swap(0, Ordering::Acquire)
    }
}
