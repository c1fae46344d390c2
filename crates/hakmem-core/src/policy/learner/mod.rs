//! The learner of mode `learn`: it finds out how long free memory stays, and how many freed huge
//! blocks.
//!
//! To keep free memory costs memory. To give it back too early costs page faults. The best time and
//! amount depend on when the program wants the memory again, which no rule can know beforehand. But
//! the learner can measure it.
//!
//! ```text
//! moves      slow paths report here; decisions go into the knobs    a lock and a clock
//! trials     what each candidate would keep, and what that costs    pure
//! race       ratings of the candidates, and the decisions           pure
//! demand     how much was in use lately                             pure
//! decisions  the journal of decisions, which reports read
//! ```
//!
//! The rest of the allocator calls the functions that this file names. Where there is no port, only
//! the pure parts are there.
//!
//! Rules
//! 1. A pure part has no clock, no lock and no allocation.
//! 2. Only `moves` changes an option, and only one that nobody has set.

#[cfg(ported)]
pub(crate) mod decisions;
mod demand;
#[cfg(ported)]
pub(crate) mod moves;
mod race;
mod trials;

#[cfg(ported)]
pub(crate) use moves::{LOCK, PASS_MS, forget, huge, is_on, misfit, slots, turn};
pub use race::{Decision, What};
pub use trials::Learner;

/// A kind of memory, with a demand of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Pages and large blocks.
    Slots,
    /// Huge blocks.
    Huge,
}

/// The settings that the learner knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Milliseconds that free memory stays.
    pub decay_ms: u32,
    /// MiB of freed huge blocks that stay until their decay is over …
    pub huge_mib: u32,
    /// … or as many per cent of the live ones, whichever is more.
    pub huge_percent: u32,
}

impl Settings {
    const NONE: Self = Self { decay_ms: 0, huge_mib: 0, huge_percent: 0 };

    /// KiB that huge blocks may keep while `level` KiB are live. The cache also keeps what was
    /// freed lately. The learner does not know that, and may raise the limit without need.
    fn huge_limit(&self, level: u32) -> u32 {
        let part = u64::from(level) * u64::from(self.huge_percent) / 100;
        let limit = part.max(u64::from(self.huge_mib) << 10) + u64::from(level);
        limit.min(u32::MAX.into()) as u32
    }
}
