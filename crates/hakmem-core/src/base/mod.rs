//! What everything else stands on: atomics, counters, and the sizes of blocks. Nothing here knows of the allocator or the system.

#[cfg(not(loom))]
pub(crate) mod counter;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod mutant;
#[cfg(any(loom, shuttle))]
pub mod mutant;
#[cfg(not(loom))]
pub(crate) mod size_class;
pub(crate) mod sync;
#[cfg(not(loom))]
pub(crate) mod usage;
