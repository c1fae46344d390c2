//! The layout of an arena: where its bitmaps, its metadata and its data lie, and when these become
//! accessible.
//!
//! Rules
//! 1. Guards lie around the metadata and around the data (`arena` rule 6).
//! 2. Metadata is readable once its arena is known, and writable once its group is in use (`arena`
//!    rule 4).

use super::bits::SET_ROWS;
use super::space::{Reservation, reserve_some};
use super::*;
use crate::harden;

impl Arena {
    pub(super) fn reserve(&self, wanted: usize) -> bool {
        harden::key::draw();
        let Some(Reservation { mut base, mut len, segments, is_scarce }) = reserve_some(wanted)
        else {
            return false;
        };
        let groups = segments.div_ceil(GROUP);
        // The summary and the first groups share a system page.
        let first_group = summary_bytes(segments).next_multiple_of(align_of::<Group>());
        let front = (first_group + groups * size_of::<Group>()).next_multiple_of(SLOT);
        let metadata = (segments * SEGMENT_META).next_multiple_of(SLOT);
        let data = (base + GUARD + front + metadata + GUARD).next_multiple_of(SEGMENT);
        let metas = data - GUARD - metadata;
        let start = metas - front;
        // What lies in front of the first guard and behind the last was reserved for the alignment
        // only.
        if is_scarce {
            let (first, end) = (start - GUARD, data + segments * SEGMENT + GUARD);
            for (from, to) in
                [(base, first), (end, base + len)].into_iter().filter(|(from, to)| from < to)
            {
                give_up(from, to - from);
            }
            (base, len) = (first, end - first);
        }
        // The metadata of slots that were never used reads as zero: `Kind::Free`, and no owner.
        if !os::make_readable(metas, segments * SEGMENT_META) {
            give_up(base, len);
            return false;
        }
        self.summary.store(at(start).cast(), Relaxed);
        self.groups.store(at(start + first_group).cast(), Relaxed);
        self.metas.store(at(metas), Relaxed);
        self.data.store(data, Relaxed);
        self.reserved.store(segments, Relaxed);
        self.segments.store(segments, Relaxed);
        self.known.store(segments, Relaxed);
        true
    }

    /// Brings the first `wanted` groups into use. The caller holds the lock.
    pub(super) fn make_ready(&self, wanted: usize) -> bool {
        let top = self.top.load(Relaxed);
        if wanted <= top {
            return true;
        }
        let metas = self.metas.load(Relaxed).addr();
        // The bitmaps lie in front of the metadata and are committed with its first piece.
        let from = if top == 0 {
            self.summary.load(Relaxed).addr()
        } else {
            metas + top * GROUP * SEGMENT_META
        };
        let to = metas + (wanted * GROUP).min(self.segments.load(Relaxed)) * SEGMENT_META;
        let is_left_out = self.is_left_out.load(Relaxed) && !os::is_filtered();
        if !os::commit(from, to - from) {
            if !is_left_out {
                return false;
            }
            // Where the process may have no further map, the piece must join its neighbours.
            self.take_rest_into_dumps();
            if !os::commit(from, to - from) {
                return false;
            }
        }
        COMMITTED.fetch_add(to - from, Relaxed);
        if is_left_out {
            let (first, n) = self.between(top, wanted);
            let data = self.data.load(Relaxed) + first * SEGMENT;
            if !os::take_into_dumps(from, to - from) || !os::take_into_dumps(data, n * SEGMENT) {
                self.take_rest_into_dumps(); // Which divides no map.
            }
        }
        // Release: a thread that reads the new `top` in `groups` may use the groups below it.
        self.top.store(wanted, Release);
        true
    }

    /// The first segment of group `from`, and how many segments lie between it and group `to`.
    fn between(&self, from: usize, to: usize) -> (usize, usize) {
        let first = from * GROUP;
        (first, (to * GROUP).min(self.segments.load(Relaxed)).saturating_sub(first))
    }

    /// Calls `advise` for the metadata and the data of the groups that are not in use. The caller
    /// holds the lock.
    fn advise_rest(&self, advise: impl Fn(usize, usize) -> bool) {
        let (first, n) = self.between(self.top.load(Relaxed), usize::MAX / GROUP);
        if n > 0 {
            let metas = self.metas.load(Relaxed).addr();
            advise(metas + first * SEGMENT_META, n * SEGMENT_META);
            advise(self.data.load(Relaxed) + first * SEGMENT, n * SEGMENT);
        }
    }

    /// Leaves the groups that are not in use out of core dumps, once (rule 10 of `arena`). The
    /// caller holds the lock.
    #[cold]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn leave_rest_out_of_dumps(&self) {
        self.is_left_out.store(true, Relaxed);
        self.advise_rest(os::leave_out_of_dumps);
    }

    /// Takes them into core dumps, for good. The caller holds the lock.
    #[cold]
    fn take_rest_into_dumps(&self) {
        self.advise_rest(os::take_into_dumps);
    }

    /// Takes them into core dumps, so that the process has fewer maps. False: that changes nothing.
    /// The caller does not hold the lock.
    #[cold]
    pub(super) fn make_room_for_maps(&self) -> bool {
        let _held = LOCK.lock();
        let is_left_out = self.is_left_out.load(Relaxed) && !os::is_filtered();
        if is_left_out {
            self.take_rest_into_dumps();
        }
        is_left_out
    }
}

/// Takes all of each arena into core dumps, for good, as the process is about to get a filter. If
/// another thread keeps the lock for half a second, or a handler of the lock's holder calls this,
/// what is not in use by now stays out of dumps.
#[cold]
pub fn take_all_into_dumps() {
    if LOCK.is_held_by(os::thread_token()) {
        return;
    }
    if let Some(_held) = LOCK.lock_patiently() {
        let left_out = |arena: &&Arena| arena.is_left_out.swap(true, Relaxed);
        all().filter(left_out).for_each(Arena::take_rest_into_dumps);
    }
}

/// Words of an arena's summary for one row.
pub(super) fn summary_words(segments: usize) -> usize {
    segments.div_ceil(GROUP).div_ceil(64)
}

pub(super) fn summary_bytes(segments: usize) -> usize {
    (ROWS + SET_ROWS) * summary_words(segments) * size_of::<AtomicU64>()
}
