//! A thread's first blocks come from pages that many threads share (`parked`), so that it costs little to have allocated a few of each
//! size. A page of its own for each would have 4 KiB resident, and most of that would never be used.
//!
//! Heaps made while there are few do not share: a program of one thread, or of as many as the machine has processors, takes no lock
//! for its first blocks.

use super::counts::HeapEvent;
use super::{Fresh, Heap};
use crate::backend::page::{Block, Meta};
use crate::backend::segment;
use crate::base::size_class::SIZES;
use crate::heap::parked::{self, Freed};
use crate::policy;
use crate::proto::inbox::Link;
use core::cell::Cell;
use core::ptr::{NonNull, null_mut};

/// Classes of blocks up to 2 KiB are shared: of larger ones a page of the heap's own has but one that was carved in vain.
const SHARED: usize = 29;
const _: () = assert!(SIZES[SHARED - 1] == 2048);
/// What a heap gets of a class is counted in units of this many bytes.
const UNIT: u32 = 64;
/// So many: 4 KiB, which is what is carved of a page of its own at once, or sixteen blocks if that is more, but 16 KiB.
const MOST: [u8; SHARED] = {
    let mut most = [0; SHARED];
    let mut class = 0;
    while class < SHARED {
        let units = SIZES[class] * 16 / UNIT;
        most[class] = if units < 64 {
            64
        } else if units > 255 {
            255
        } else {
            units as u8
        };
        class += 1;
    }
    most
};
/// Bytes that it gets at a time; more is left unused than a lock costs.
const AT_ONCE: u32 = 512;

/// What a heap has got of shared pages since its thread has it. All zero bytes: it does not share.
pub(super) struct Shared {
    shares: Cell<bool>,
    /// By class, in `UNIT`s.
    got: [Cell<u8>; SHARED],
}

impl Heap {
    /// The heap is the one made after `made` others.
    pub fn begin(&self, made: u64) {
        let from = policy::SHARED_FROM_HEAPS.get();
        self.shared.shares.set(from != 0 && made >= u64::from(from));
    }

    /// Whether this heap is one of those that share. The others send what they free of shared pages as they send all else: a program
    /// of few threads takes no lock for it.
    #[inline]
    pub fn is_sharing(&self) -> bool {
        self.shared.shares.get()
    }

    /// Another thread will have it.
    pub(super) fn share_anew(&self) {
        self.shared.got.iter().for_each(|got| got.set(0));
    }

    /// Whether blocks of `class` come from a shared page, when the heap's own have none.
    #[inline(always)]
    pub(super) fn shares(&self, class: usize) -> bool {
        let got_less = |(got, most): (&Cell<u8>, &u8)| got.get() < *most;
        self.is_sharing() && self.shared.got.get(class).zip(MOST.get(class)).is_some_and(got_less)
    }

    /// Blocks of a shared page, as many again as there were: the first is returned, the rest becomes the heap's list.
    #[cold]
    #[inline(never)]
    pub(super) fn share(&self, class: usize) -> Option<Fresh> {
        let (size, got) = (SIZES[class], &self.shared.got[class]);
        let share = parked::share(class, (u32::from(got.get()) * UNIT).min(AT_ONCE))?;
        if got.get() == 0 {
            self.counts.make_room(class); // It may never take a list of its own page.
        }
        let bytes = share.count * size;
        got.set(got.get().saturating_add(bytes.div_ceil(UNIT) as u8));
        self.counts.note(class, HeapEvent::Listed, share.count);
        self.counts.note(class, HeapEvent::Claims, share.claimed.into());
        if share.carved {
            self.counts.note(class, HeapEvent::Carves, 1);
            self.counts.existing[class].add(share.count.into());
            // At once: of many heaps each has little to tell, and what comes back is told by `parked`.
            Self::tell_live(bytes.into(), bytes.into());
            segment::note_carved(bytes.into());
        } else {
            self.counts.note(class, HeapEvent::Takes, 1);
        }
        let mut rest = null_mut();
        // SAFETY: the blocks are this heap's, and on this list alone.
        unsafe {
            if share.carved {
                for i in (1..share.count as usize).rev() {
                    let block = share.first.wrapping_byte_add(i * size as usize);
                    Block::set_next(block, rest);
                    rest = block;
                }
            } else {
                rest = Block::next(share.first);
            }
        }
        self.owner.front.free[class].set(rest);
        NonNull::new(share.first).map(|first| (first, share.carved && share.page.zero.get()))
    }

    /// Frees a block of a parked page, at once. False: it is still the caller's. `count` is 1, or 0 for a block that the
    /// program never had.
    ///
    /// # Safety
    /// The block is of `page`, on no list, and the caller's to free; the calling thread has this heap.
    #[must_use]
    pub unsafe fn free_parked(&self, page: &Meta, block: *mut Block, count: u64) -> bool {
        // SAFETY: the caller gives the block up.
        let freed = unsafe { parked::free(page, block, count) };
        if freed == Freed::No {
            return false;
        }
        if freed == Freed::WithItsPage {
            self.released.set(true);
        }
        self.outgoing.sent.add(count);
        true
    }

    /// Puts back a block of the heap's list that the program never had, of a page that is not the heap's.
    ///
    /// # Safety
    /// As [`Heap::free_parked`].
    pub(super) unsafe fn put_back(&self, page: &Meta, block: *mut Block) {
        // SAFETY: the caller gives the block up; it stays the caller's where `free_parked` says so.
        unsafe {
            if page.owner() != parked::owner() || !self.free_parked(page, block, 0) {
                self.outgoing.add(page, block);
            }
        }
    }
}
