//! Helpers for tests that need a process of their own. The tests of `tests/` use them by way of
//! `tests/oracle`.

mod alone;
mod in_child;

pub use alone::alone;
pub use in_child::{goes_well_in_child, in_child};
