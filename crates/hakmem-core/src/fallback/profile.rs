//! The heap profile. There is none on this target: hakmem does not serve the program.

pub use crate::types::profile::{Busy, DEFAULT_INTERVAL, Event, MAX_INTERVAL};

/// False: nothing is sampled.
pub fn is_on() -> bool {
    false
}

/// 0: there never was a profile.
pub fn interval() -> u64 {
    0
}

/// False: no profile starts on this target.
pub fn start(_: u64) -> bool {
    false
}

/// Nothing: there is no profile.
pub fn stop() {}

/// None: there never was a profile.
pub fn dump<R>(_: Event, _: impl FnOnce(&[u8]) -> R) -> Option<R> {
    None
}

/// None: there never was a profile.
///
/// # Errors
///
/// None: nothing can be busy.
pub fn dump_at_once<R>(_: Event, _: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Busy> {
    Ok(None)
}

/// Calls `write`, which finds no profile.
///
/// # Safety
/// None is needed here. Where hakmem serves, it may call `write` later.
pub unsafe fn dump_soon(write: fn() -> Result<(), Busy>) {
    let _ = write();
}
