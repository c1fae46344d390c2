//! Bytes handed out: one total and its peak, told where pages, large blocks and whales change hands.

use crate::sync::Ordering::Relaxed;
use crate::sync::plain::AtomicI64;

pub static LIVE: AtomicI64 = AtomicI64::new(0);
pub static PEAK: AtomicI64 = AtomicI64::new(0);

/// Adds to the live bytes `change`, on the way to which they stood `high` above where they were. Returns the peak if this
/// has raised it.
pub fn add(change: i64, high: i64) -> Option<u64> {
    let before = LIVE.fetch_add(change, Relaxed);
    if high <= 0 {
        return None;
    }
    let peak = before + high;
    (PEAK.fetch_max(peak, Relaxed) < peak).then_some(peak as u64)
}

/// Live bytes, now and at most.
pub fn live() -> (u64, u64) {
    (LIVE.load(Relaxed).max(0) as u64, PEAK.load(Relaxed).max(0) as u64)
}
