//! The part of `src/base` that the protocols use.

#[rustfmt::skip]
#[path = "../../src/base/sync/mod.rs"]
pub mod sync;
