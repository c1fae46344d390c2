//! What the protocols ask of the system: who sleeps lets another thread go on, and looks again.

use crate::base::sync::{AtomicU32, spin};

pub fn futex_wait(_: &AtomicU32, _: u32, _: Option<u32>) {
    spin();
}

pub fn futex_wake(_: &AtomicU32) {}

pub fn sleep_us(_: u32) {
    spin();
}

/// A model's threads have the tokens that it gives them.
pub fn thread_token() -> u32 {
    unreachable!("the models name their threads")
}
