//! Large blocks of a heap: its cache, the slots that it claims for them, and its counters.
//!
//! Rule
//! 1. The cache is used inside (`heap` rule 3), as a purge may empty the cache of a paused heap.
//!    The fast path only tries: if the purge keeps the holder out, the caller takes the slow path.

use super::{Heap, REPORT_BYTES};
use crate::backend::arena::SLOT;
use crate::backend::page::Meta;
use crate::base::sync::Ordering::Relaxed;
use crate::large;

/// What [`Heap::cached_large`] found.
pub enum CachedLarge {
    /// A block.
    Block(*mut u8),
    /// A block. The caller calls [`Heap::note_growth`].
    Grown(*mut u8),
    /// Nothing: the cache has no such block, or the purge keeps the holder out.
    None,
}

/// What became of a large block that [`Heap::free_large`] got.
pub enum FreedLarge {
    /// It is in the cache.
    Kept,
    /// It is in the cache. The caller calls [`Heap::after_free_large`].
    Due,
    /// The cache has no room for it. The caller calls [`Heap::after_free_large`].
    NoRoom,
    /// Nothing: the purge keeps the holder out. The caller calls [`Heap::wait_for_purge`] and tries
    /// again.
    Paused,
}

impl Heap {
    /// Allocates a large block from the heap's cache: see [`large::cached`].
    #[inline(always)]
    pub fn cached_large(&self, n: usize) -> CachedLarge {
        if !self.pause.try_enter() {
            self.pause.leave();
            return CachedLarge::None;
        }
        let Some(p) = large::cached(&self.large, n) else {
            self.pause.leave();
            return CachedLarge::None;
        };
        self.counts.large_hits.add(1);
        let live = self.live.get() + large::size_for(n) as i64;
        self.live.set(live);
        self.pause.leave();
        // A report is due only above `high`, as the last one set it to 0.
        if live > self.high.get() { CachedLarge::Grown(p) } else { CachedLarge::Block(p) }
    }

    /// Allocates a large block from a segment: see [`large::fresh`].
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn fresh_large(&self, n: usize) -> Option<(&'static Meta, bool)> {
        // Inside: a purge that pauses the heap uses its home too.
        self.busy(|| {
            self.large.close_if_several();
            let got = large::fresh(n, &self.home)?;
            self.counts.large_fresh.add(1);
            self.note_live(large::size_for(n) as i64);
            Some(got)
        })
    }

    /// Frees a large block: see [`large::keep`].
    ///
    /// # Safety
    /// A live large block starts at `p`, in the slot of `meta`, and it is the caller's to free.
    #[inline(always)]
    pub unsafe fn free_large(&self, p: *mut u8, meta: &Meta) -> FreedLarge {
        if !self.pause.try_enter() {
            return FreedLarge::Paused;
        }
        self.counts.large_freed.add(1);
        let span = meta.span.load(Relaxed);
        let live = self.live.get() - i64::from(span) * SLOT as i64;
        self.live.set(live);
        // SAFETY: the caller promises a live large block and gives it up. The cache is the calling
        // thread's, which holds the heap.
        let is_kept = unsafe { large::keep(&self.large, p, meta, span) };
        self.pause.leave();
        match is_kept {
            false => FreedLarge::NoRoom,
            true if live < -REPORT_BYTES => FreedLarge::Due,
            true => FreedLarge::Kept,
        }
    }

    /// Waits while the purge keeps the holder out: what [`Heap::free_large`] said.
    #[cold]
    #[inline(never)]
    pub fn wait_for_purge(&self) {
        self.pause.wait();
    }

    /// The rest of [`Heap::free_large`]: makes room in the cache unless the block is kept, and
    /// reports the live bytes if that is due. True if slots went back to a segment and the totals
    /// know of them.
    ///
    /// # Safety
    /// `free_large` has just said of the block of `meta` whether it is kept.
    #[cold]
    #[inline(never)]
    pub unsafe fn after_free_large(&self, meta: &Meta, is_kept: bool) -> bool {
        self.busy(|| {
            // SAFETY: what `free_large` did not keep is still this thread's, and given up. The
            // thread holds the heap.
            let is_told = !is_kept && unsafe { large::make_room(&self.large, meta, &self.home) };
            self.note_live(0);
            is_told
        })
    }

    /// Resizes a large block in place: see [`large::resize`]. Slots that it leaves may be work for
    /// a purge: see [`Heap::has_released`].
    ///
    /// # Safety
    /// `meta` is the first slot of a live large block. No other thread uses it during the call.
    pub unsafe fn resize_large(&self, meta: &Meta, n: usize) -> bool {
        // SAFETY: the caller promises a live large block that no other thread uses.
        let Some(change) = (unsafe { large::resize(meta, n) }) else { return false };
        self.busy(|| self.note_live(change));
        if change < 0 {
            self.set_released(true);
        }
        true
    }
}
