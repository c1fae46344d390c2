//! The ways into the allocator: Rust's `GlobalAlloc`, the functions that the C library is built from, and what both do.

pub mod c;
pub(crate) mod front;
pub(crate) mod global;
