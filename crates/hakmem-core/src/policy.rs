//! The knobs: every number that is a choice, in one place, read on slow paths only.

use crate::sync::Ordering::Relaxed;
use crate::sync::plain::AtomicU32;

/// One choice, changeable while the program runs.
pub struct Knob(AtomicU32);

impl Knob {
    const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }
    /// Its value now.
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
    /// Changes it.
    pub fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }
}

/// Bytes of fresh blocks put on a list at a time.
pub static CARVE_BYTES: Knob = Knob::new(4096);
/// A full page is worth waking once one in this many of its blocks is free.
pub static WAKE_FRACTION: Knob = Knob::new(8);
/// A page of which no more blocks than these are out is set aside, and its holes given back; 0: none is.
pub static SPARSE_BLOCKS: Knob = Knob::new(8);
/// Empty pages that a heap keeps for itself.
pub static RETAINED_PAGES: Knob = Knob::new(4);
/// Bytes of blocks on their way to their owners that a thread keeps before it sends them.
pub static BATCH_BYTES: Knob = Knob::new(256 << 10);
/// Pages a heap must own before fresh ones are faulted in whole, by one call instead of 16 faults.
pub static POPULATE_FROM_PAGES: Knob = Knob::new(16);
/// Segments in use before fresh ones are given huge pages; 0: never.
pub static HUGE_FROM_SEGMENTS: Knob = Knob::new(32);
/// Milliseconds that free memory stays before it goes back to the system.
pub static DECAY_MS: Knob = Knob::new(500);
/// MiB of idle free memory at which the scavenger thread is made; 0: never.
pub static SCAVENGE_MIB: Knob = Knob::new(16);
/// MiB of free memory that may stay when a thread ends; what is beyond goes back at once.
pub static ENDED_MIB: Knob = Knob::new(4);
/// Bytes between samples of the heap profile that the environment asks for, on average.
pub static PROFILE_INTERVAL: Knob = Knob::new(512 << 10);
/// What is done with foreign pointers: see [`Foreign`].
pub static FOREIGN: Knob = Knob::new(Foreign::Forward as u32);
/// Foreign frees at which their call site is reported.
pub static FOREIGN_REPORT: Knob = Knob::new(1000);

/// What happens to a pointer outside every arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(dead_code, reason = "set by its number, from the option's word")]
pub enum Foreign {
    /// It goes to the next allocator in link order, and is leaked where there is none.
    Forward = 0,
    /// It is left alone.
    Leak = 1,
    /// The process ends with a line that names it.
    Abort = 2,
}
