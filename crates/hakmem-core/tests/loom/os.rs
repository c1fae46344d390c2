//! The functions of `src/os` that the protocols call. A thread that sleeps lets another one run,
//! and then returns.

use crate::base::sync::{AtomicU32, spin};

pub fn futex_wait(_: &AtomicU32, _: u32, _: Option<u32>) {
    spin();
}

pub fn futex_wake(_: &AtomicU32) {}

pub fn sleep_us(_: u32) {
    spin();
}

/// Never called: the models pass a token for each thread.
pub fn thread_token() -> u32 {
    unreachable!("the models name their threads")
}
