//! The part of `src/base` that the protocols stand on.

#[rustfmt::skip]
#[path = "../../src/base/sync/mod.rs"]
pub mod sync;
