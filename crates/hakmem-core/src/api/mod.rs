//! The front ends: Rust's `GlobalAlloc`, the functions that the C library is built from, and the
//! code that both share.

pub mod c;
pub(crate) mod front;
pub(crate) mod global;
pub(crate) mod hardened;
pub mod heaps;
pub(crate) mod memory;
