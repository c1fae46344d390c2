//! The live bytes of a heap. The heap tells the process's total only of large changes, so most
//! calls write no word that other threads write.

use super::{Heap, peak};
use crate::backend::page::Meta;
use crate::backend::segment;
use crate::base::sync::Ordering::Relaxed;
use crate::base::usage;
use crate::policy::learner;

/// A heap adds to the process's total of live bytes in steps of this many bytes.
pub(super) const REPORT_BYTES: i64 = 1 << 20;

impl Heap {
    /// Notes a change of the page's carved bytes, which are live bytes too.
    pub(super) fn note_carved(&self, page: &Meta, change: i64) {
        self.note_live(change);
        if page.span.load(Relaxed) == 1 {
            self.carved.set(self.carved.get() + change);
            if self.carved.get().unsigned_abs() >= REPORT_BYTES as u64 {
                segment::note_carved(self.carved.replace(0));
            }
        }
    }

    /// Notes a change of live bytes, and reports the sum when it is large.
    pub(super) fn note_live(&self, change: i64) {
        if self.add_live(change) {
            self.report_live();
        }
    }

    /// Notes a change of live bytes. True: the sum is so large that a report is due.
    #[inline(always)]
    pub(super) fn add_live(&self, change: i64) -> bool {
        let live = self.live.get() + change;
        self.live.set(live);
        if live > self.high.get() {
            self.high.set(live);
        }
        (live + REPORT_BYTES) as u64 >= 2 * REPORT_BYTES as u64
    }

    /// Notes that the live bytes are higher than ever since the last report, and reports them if
    /// that is due.
    #[cold]
    #[inline(never)]
    pub fn note_growth(&self) {
        self.busy(|| self.note_live(0));
    }

    /// Adds the noted change of live bytes to the process's total.
    #[cold]
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn report_live(&self) {
        let (change, high) = (self.live.get(), self.high.replace(0));
        self.live.set(0);
        Self::tell_live(change, high);
    }

    /// Adds `change` to the process's total of live bytes. On the way the sum stood `high` above
    /// its former value.
    pub fn tell_live(change: i64, high: i64) {
        if let Some(peak) = usage::add(change, high) {
            peak::note(peak);
        }
        learner::slots(change, high);
    }
}
