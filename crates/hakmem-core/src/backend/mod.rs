//! Memory from the system, and what is known of each piece of it: arenas, segments, pages and their owners.
//!
//! Whoever has an address finds here what it belongs to, or that it is not the allocator's.

pub(crate) mod arena;
pub(crate) mod check;
pub(crate) mod foreign;
pub(crate) mod owner;
pub(crate) mod page;
pub(crate) mod remote_batch;
pub(crate) mod segment;
pub(crate) mod stray;
