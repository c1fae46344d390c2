//! What all other modules use: atomics, counters, and the sizes of blocks. Nothing here knows of
//! the allocator or the system.

pub(crate) mod counter;
pub(crate) mod prefetch;
pub(crate) mod size_class;
pub(crate) mod sync;
pub(crate) mod usage;
