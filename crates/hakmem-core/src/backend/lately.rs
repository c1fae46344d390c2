//! The largest value of a count within the last decay.
//!
//! Rules
//! 1. A time is half a decay long. The peak is that of the present time and of the one before. So a
//!    value counts for half a decay at least, and for a whole one at most, as long as somebody
//!    notes values.
//! 2. All steps are relaxed, and several threads may take them at once: then a peak may be lost. It
//!    decides how much free memory stays, and nothing else.

use crate::base::sync::{
    Ordering::Relaxed,
    plain::{AtomicU32, AtomicUsize},
};
use crate::os;

/// A count whose peaks are noted.
pub(crate) struct Lately {
    /// The largest value of the present time, and of the one before.
    peaks: [AtomicUsize; 2],
    /// When the present time began, in coarse milliseconds.
    began: AtomicU32,
}

impl Lately {
    pub(crate) const fn new() -> Self {
        Self { peaks: [const { AtomicUsize::new(0) }; 2], began: AtomicU32::new(0) }
    }

    /// Notes a value. Returns the peak.
    pub(crate) fn note(&self, value: usize, now: u32, decay: u32) -> usize {
        let [present, before] = &self.peaks;
        let age = os::age(now, self.began.load(Relaxed));
        if age >= decay / 2 {
            self.began.store(now, Relaxed);
            let last = present.swap(value, Relaxed);
            before.store(if age < decay { last } else { 0 }, Relaxed);
        } else if present.load(Relaxed) < value {
            present.store(value, Relaxed);
        }
        self.get()
    }

    /// The peak when a value was noted last.
    pub(crate) fn get(&self) -> usize {
        let [present, before] = &self.peaks;
        present.load(Relaxed).max(before.load(Relaxed))
    }

    /// As if nothing had been noted.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.peaks.iter().for_each(|peak| peak.store(0, Relaxed));
    }
}
