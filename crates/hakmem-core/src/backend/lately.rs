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
    plain::{AtomicBool, AtomicU32, AtomicUsize},
};
use crate::os;

/// Why peaks are ignored. In both cases nobody gives memory back once its time is over: a program
/// that makes no more calls would keep for ever what it needed lately.
#[derive(Clone, Copy)]
pub(crate) enum Because {
    /// The system refused to make the scavenger.
    Refused,
    /// There may be no scavenger any more.
    Forbidden,
}

/// One for each [`Because`].
static IGNORED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Tells whether peaks are ignored for this reason. They count while there is none.
pub(crate) fn ignore_peaks(because: Because, is_so: bool) {
    IGNORED[because as usize].store(is_so, Relaxed);
}

/// A count whose peaks are noted.
pub(crate) struct Lately {
    /// The largest value of the present time, and of the one before.
    peaks: [AtomicUsize; 2],
    /// When the present time began, in coarse milliseconds. 0: never.
    began: AtomicU32,
}

impl Lately {
    pub(crate) const fn new() -> Self {
        Self { peaks: [const { AtomicUsize::new(0) }; 2], began: AtomicU32::new(0) }
    }

    /// Notes a value. Returns the peak, as [`Lately::get`] does.
    pub(crate) fn note(&self, value: usize, now: u32, decay: u32) -> usize {
        let [present, before] = &self.peaks;
        let began = self.began.load(Relaxed);
        let age = if began == 0 { u32::MAX } else { os::age(now, began) };
        if age >= decay / 2 {
            self.began.store(now.max(1), Relaxed);
            let last = present.swap(value, Relaxed);
            before.store(if age < decay { last } else { 0 }, Relaxed);
        } else if present.load(Relaxed) < value {
            present.store(value, Relaxed);
        }
        self.get()
    }

    /// The peak when a value was noted last. 0 if peaks are ignored.
    pub(crate) fn get(&self) -> usize {
        if IGNORED.iter().any(|is_so| is_so.load(Relaxed)) {
            return 0;
        }
        let [present, before] = &self.peaks;
        present.load(Relaxed).max(before.load(Relaxed))
    }

    /// As if nothing had been noted.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.peaks.iter().for_each(|peak| peak.store(0, Relaxed));
    }
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn no_peak_counts_where_nobody_gives_memory_back() {
        crate::testing::in_child(|| {
            let lately = Lately::new();
            assert_eq!(lately.note(7, 1000, 100), 7);
            ignore_peaks(Because::Refused, true);
            assert_eq!(lately.note(3, 1001, 100), 0);
            ignore_peaks(Because::Forbidden, true);
            ignore_peaks(Because::Refused, false);
            assert_eq!(lately.note(3, 1002, 100), 0);
            ignore_peaks(Because::Forbidden, false);
            assert_eq!(lately.note(3, 1003, 100), 7);
        });
    }

    #[test]
    fn a_peak_counts_for_half_a_decay_to_a_whole_one() {
        let lately = Lately::new();
        assert_eq!(lately.note(7, 1000, 100), 7);
        assert_eq!((lately.note(3, 1049, 100), lately.get()), (7, 7));
        assert_eq!(lately.note(4, 1050, 100), 7, "it is of the time before");
        assert_eq!(lately.note(2, 1100, 100), 4, "it is too old");
        assert_eq!(lately.note(1, 1200, 100), 1, "nobody noted anything for a decay");
    }

    /// The clock is about to wrap when the process begins. An age of 0 would never end.
    #[test]
    fn the_first_value_begins_a_time() {
        let lately = Lately::new();
        let late = 1000_u32.wrapping_neg();
        assert_eq!(lately.note(7, late, 100), 7);
        assert_eq!(lately.note(3, late + 200, 100), 3);
    }
}
