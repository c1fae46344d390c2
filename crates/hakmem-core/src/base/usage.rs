//! Live bytes of the process: one total and its peak.
//!
//! All steps are relaxed: the figures say nothing about other memory.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicI64;

/// Live bytes now, as far as threads have added them.
pub static LIVE: AtomicI64 = AtomicI64::new(0);
/// The most that `LIVE` was, between two calls of `add` too.
pub static PEAK: AtomicI64 = AtomicI64::new(0);
/// The part of `LIVE` that is in huge blocks.
pub static HUGE: AtomicI64 = AtomicI64::new(0);

/// Adds `change` to the live bytes. Since the caller's last call they were up to `high` bytes above
/// the value before this one. Returns the peak if this call has raised it.
pub fn add(change: i64, high: i64) -> Option<u64> {
    let before = LIVE.fetch_add(change, Relaxed);
    if high <= 0 {
        return None;
    }
    let peak = before + high;
    // The load first: all threads read the peak, and few calls raise it.
    (PEAK.load(Relaxed) < peak && PEAK.fetch_max(peak, Relaxed) < peak).then_some(peak as u64)
}

/// Live bytes now, and their peak.
pub fn live() -> (u64, u64) {
    (LIVE.load(Relaxed).max(0) as u64, PEAK.load(Relaxed).max(0) as u64)
}

/// Live bytes of huge blocks.
pub fn huge() -> u64 {
    HUGE.load(Relaxed).max(0) as u64
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::testing::in_child;

    #[test]
    fn the_peak_is_what_was_live_at_once() {
        in_child(|| {
            LIVE.store(100, Relaxed);
            PEAK.store(100, Relaxed);
            assert_eq!((add(50, 50), live()), (Some(150), (150, 150)));
            assert_eq!((add(-100, 0), live()), (None, (50, 150)));
            assert_eq!((add(10, 40), live()), (None, (60, 150)), "it was higher before");
            assert_eq!((add(0, 90), live()), (None, (60, 150)), "as high as it was");
            assert_eq!((add(5, 91), live()), (Some(151), (65, 151)), "on the way to less");
            assert_eq!((add(-70, -10), live()), (None, (0, 151)));
        });
    }
}
