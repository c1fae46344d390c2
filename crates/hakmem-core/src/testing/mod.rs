//! Helpers for tests: a process of their own, and choices. The tests of `tests/` use them by way of
//! `tests/oracle`.

mod alone;
mod hardened;
mod in_child;
mod random;

pub use alone::alone;
pub use hardened::{BEHIND, keep_nothing_back};
pub use in_child::{goes_well_in_child, in_child};
pub use random::Random;
