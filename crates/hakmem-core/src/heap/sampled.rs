//! The heap profile's part in a heap: lists end where a sample is due (`profile`).

use super::counts::Event;
use super::{Fresh, Heap};
use crate::guard;
use crate::page::{Block, Meta};
use crate::profile::{self, Sampler};
use crate::proto::inbox::Link;
use crate::size_class::SIZES;
use core::ptr::{NonNull, null_mut};

impl Heap {
    /// None: there is no memory for one.
    fn sampler(&self) -> Option<&'static Sampler> {
        // SAFETY: null, or a sampler, which are for ever.
        if let Some(sampler) = unsafe { self.sampler.get().as_ref() } {
            return Some(sampler);
        }
        let made = Sampler::make()?;
        self.sampler.set(made);
        Some(made)
    }

    /// [`Heap::refill`] while allocations are sampled: this one if it is due; else the list that it gets is cut before the next
    /// that is. O(blocks of the list before that), once for each sample.
    #[inline(never)]
    pub(super) fn refill_sampled(&self, class: usize) -> Option<Fresh> {
        // SAFETY: as in `sampler`.
        match unsafe { self.sampler.get().as_ref() } {
            Some(sampler) if sampler.known_left(class) > 0 => self.refill_up_to(sampler, class),
            _ => self.refill_due(class),
        }
    }

    /// This one is due, or it is not known yet if it is.
    #[cold]
    #[inline(never)]
    fn refill_due(&self, class: usize) -> Option<Fresh> {
        let Some(sampler) = self.sampler() else { return self.refill_plain(class) };
        if sampler.left(class) == 0 {
            if let Some(block) = profile::sample_small(sampler, class) {
                self.counts.note(class, Event::Handed, 1);
                self.counts.note(class, Event::Takes, 1);
                self.counts.make_room(class);
                self.counts.existing[class].add(1);
                self.note_live(i64::from(SIZES[class]));
                return Some((block, false));
            }
        }
        self.refill_up_to(sampler, class)
    }

    #[inline(always)]
    fn refill_up_to(&self, sampler: &Sampler, class: usize) -> Option<Fresh> {
        let before = self.counts.recent(class, Event::Handed);
        let fresh = self.refill_plain(class)?;
        // Below 2³¹ all, so that what `make_room` takes off does not matter.
        let got = self.counts.recent(class, Event::Handed).wrapping_sub(before) & (u32::MAX >> 1);
        // The first block is handed out already; it is no sample, even if there was no memory for one that was due.
        let left = sampler.known_left(class).max(1);
        if got > left {
            self.busy(|| self.put_back(class, left - 1, got - left));
        }
        sampler.spend(class, got.min(left));
        Some(fresh)
    }

    /// Puts what follows the first `keep` blocks of the heap's list, `rest` of them, back into the page that they were
    /// taken from: the first of the queue, whose own list is empty.
    #[cold]
    #[inline(never)]
    fn put_back(&self, class: usize, keep: u32, rest: u32) {
        let list = &self.front.free[class];
        let mut last: *mut Block = null_mut();
        for _ in 0..keep {
            // SAFETY: the list is the heap's, and longer than that.
            let next = if last.is_null() { list.get() } else { unsafe { Block::next(last) } };
            if next.is_null() {
                guard::corrupt(last.cast());
            }
            last = next;
        }
        let back = match NonNull::new(last) {
            None => list.replace(null_mut()),
            // SAFETY: as above.
            Some(last) => unsafe {
                let back = Block::next(last.as_ptr());
                Block::set_next(last.as_ptr(), null_mut());
                back
            },
        };
        // SAFETY: pages in the queue are this heap's; a list was just taken from this one.
        let page: &Meta = unsafe { &*self.queue[class].get() };
        debug_assert!(page.free.get().is_null());
        page.free.set(back);
        page.needed.set(page.needed.get() - rest as i32);
        self.counts.unhand(class, rest);
    }

    /// Whether a freed block of `class` may be put on the heap's list, to be handed out as no sample.
    pub(super) fn may_keep(&self, class: usize) -> bool {
        // SAFETY: as in `sampler`.
        match unsafe { self.sampler.get().as_ref() } {
            Some(sampler) if sampler.known_left(class) > 0 => {
                sampler.spend(class, 1);
                true
            }
            // A refill finds out.
            _ => false,
        }
    }

    /// What was drawn was for blocks that went back unused.
    pub(super) fn forget_samples(&self) {
        // SAFETY: as in `sampler`.
        if let Some(sampler) = unsafe { self.sampler.get().as_ref() } {
            sampler.forget();
        }
    }

    /// Samples a large block or whale of `size` bytes that was just allocated, if it is due.
    pub fn sample_large(&self, meta: &Meta, size: usize) {
        if let Some(sampler) = self.sampler() {
            profile::sample_large(sampler, meta, size);
        }
    }
}
