//! Stops for tests: code that runs where a thread is about to give memory back.

extern crate std;

use core::cell::Cell;

std::thread_local! {
    static STOP: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Runs `f`. Meanwhile the calling thread runs `stop` before each purge of memory, but for those
/// that `stop` makes itself.
pub fn at_each_purge<R>(stop: fn(), f: impl FnOnce() -> R) -> R {
    STOP.set(Some(stop));
    let result = f();
    STOP.set(None);
    result
}

/// Runs what the test wants here.
pub(super) fn before_purge() {
    if let Some(stop) = STOP.take() {
        stop();
        STOP.set(Some(stop));
    }
}
