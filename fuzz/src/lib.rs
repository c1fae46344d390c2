//! What the fuzz targets share. The fuzzer and the books lie in the system's heap, never in the one
//! under test.

mod library;
pub mod misuse;
mod ops;
#[path = "../../crates/hakmem-core/tests/oracle/mod.rs"]
mod oracle;
pub mod sequence;

pub use library::Library;
pub use ops::{Knobs, Step};
pub use oracle::Rust;
