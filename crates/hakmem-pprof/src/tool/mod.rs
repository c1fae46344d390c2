//! A profile as values, and the forms that it is written in. The command `hakmem` uses all of it.
//!
//! `raw` reads the text that the allocator writes. `module` finds the names of a file's places,
//! `symbols` those of a profile's addresses, and `hidden` says which of them are not shown.
//! `profile` puts both together. `encode` and `flame` write it.
#![allow(
    missing_docs,
    reason = "not documented: it may change with any version"
)]

pub mod checked;
mod colours;
pub mod encode;
pub mod flame;
mod hidden;
pub mod module;
pub mod numbers;
pub mod profile;
pub mod raw;
pub mod symbols;

pub use profile::Profile;
