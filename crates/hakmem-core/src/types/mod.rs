//! Types of the public interface that are the same on all targets. They have no code of the
//! allocator.

#[cfg(any(feature = "allocator-api2", feature = "nightly"))]
mod allocator;
mod hakmem;
mod limit;
pub mod profile;
pub mod program_heap;
#[cfg_attr(not(feature = "reports"), allow(dead_code, reason = "there are no reports"))]
pub mod report;

pub use hakmem::{Configured, Hakmem};
pub use limit::LimitCallback;
