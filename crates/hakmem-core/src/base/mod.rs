//! What all other modules use: atomics, counters, and the sizes of blocks. Nothing here knows of
//! the allocator or the system.

#[cfg(ported)]
pub(crate) mod address;
#[cfg(ported)]
pub(crate) mod counter;
#[cfg(ported)]
pub(crate) mod prefetch;
#[cfg(ported)]
pub(crate) mod random;
#[cfg(ported)]
pub(crate) mod renew;
pub(crate) mod size_class;
pub(crate) mod sync;
#[cfg(ported)]
pub(crate) mod usage;
#[cfg(ported)]
pub(crate) mod word;
