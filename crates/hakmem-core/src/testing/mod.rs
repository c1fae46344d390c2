//! For tests alone: tests that need a process of their own. Those of `tests/` reach them by `tests/oracle`.

mod alone;
mod in_child;

pub use alone::alone;
pub use in_child::{goes_well_in_child, in_child};
