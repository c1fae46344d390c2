//! Bytes handed out: one total and its peak, told where pages, large blocks and whales change hands.

use crate::sync::{AtomicI64, Ordering::Relaxed};

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// Adds to the live bytes.
pub fn add(change: i64) {
    let now = LIVE.fetch_add(change, Relaxed) + change;
    if change > 0 {
        PEAK.fetch_max(now, Relaxed);
    }
}

/// Live bytes, now and at most.
pub fn live() -> (u64, u64) {
    (LIVE.load(Relaxed).max(0) as u64, PEAK.load(Relaxed).max(0) as u64)
}
