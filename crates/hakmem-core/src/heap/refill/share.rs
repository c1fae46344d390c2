//! Sharing: a thread gets its first blocks of a class from a page that many threads share
//! (`parked`). So it costs little to allocate a few blocks of each size. If each class had a page
//! of the thread's own, each would make 4 KiB resident, most of them never used.
//!
//! The first heaps do not share. So a program with one thread, or with as many threads as the
//! machine has processors, takes no lock for its first blocks.

use crate::backend::check;
use crate::backend::page::{Block, Meta};
use crate::backend::segment;
use crate::base::size_class::SIZES;
use crate::heap::all::FEW;
use crate::heap::counts::HeapEvent;
use crate::heap::free::MUCH;
use crate::heap::reclaim::parked::{self, Freed};
use crate::heap::{Found, Heap};
use crate::proto::inbox::Link;
use crate::{guard, harden, policy, profile};
use core::cell::Cell;
use core::ptr::{NonNull, null_mut};

/// The number of classes that are shared: blocks up to 2 KiB. A page of larger blocks carves at
/// most one block that no one uses.
const SHARED: usize = 29;
const _: () = assert!(SIZES[SHARED - 1] == 2048);
/// The unit of [`Shared::got`], in bytes.
const UNIT: u32 = 64;
/// The units that a heap gets of each class at most: 4 KiB, which is what a page of its own carves
/// first, or sixteen blocks if that is more, but no more than 16 KiB.
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
/// The bytes that a heap gets at a time. Larger amounts leave more memory unused than the lock is
/// worth.
const AT_ONCE: u32 = 512;

/// The bytes of freed blocks that stay on a heap's list instead of going back to a shared page, or
/// so many blocks if that is more.
const KEPT: u32 = 1024;
const KEPT_BLOCKS: u32 = 4;
/// The bytes of small blocks that stay on it before. A thread that seldom has a few blocks of a
/// class would take the lock for each of them, for long.
const KEPT_AT_FIRST: u32 = 96;

/// The units of [`Shared::got`] that a free under the lock counts for …
const PRICE: u8 = 2;
/// … and how many of them a heap makes of a class before it keeps `KEPT` of it. …
const OFTEN: u8 = 16;
/// … A heap that made so many of all classes together keeps those of each class, else the classes
/// that each thread seldom uses would be the most that all threads do under the lock.
const OFTEN_IN_ALL: u8 = 128;

/// The amounts that a heap got from shared pages since its thread adopted it. All zero bytes: the
/// heap does not share.
pub(in crate::heap) struct Shared {
    shares: Cell<bool>,
    /// Indexed by class, in `UNIT`s.
    got: [Cell<u8>; SHARED],
    /// Frees under the lock of `parked`, by class.
    freed: [Cell<u8>; SHARED],
    /// The same of all classes, 255 at most.
    freed_in_all: Cell<u8>,
}

impl Heap {
    /// Prepares a fresh heap: decides whether it shares, and whether it has a home. `made` heaps
    /// were made before it.
    pub fn begin(&self, made: u64) {
        self.shorten_lists();
        self.large.forget();
        self.home.begin((made + 1).saturating_sub(FEW) as u32);
        let from = policy::SHARED_FROM_HEAPS.get();
        self.shared.shares.set(from != 0 && made >= u64::from(from));
    }

    /// Resets the amounts, because another thread will adopt the heap.
    pub(in crate::heap) fn share_anew(&self) {
        let (got, freed) = (self.shared.got.iter(), self.shared.freed.iter());
        got.chain(freed).chain([&self.shared.freed_in_all]).for_each(|count| count.set(0));
    }

    /// True if the heap takes blocks of `class` from a shared page when its own pages have none.
    /// Then it also frees blocks of shared pages at once. All other heaps send them like blocks of
    /// other owners. So a program of few threads takes no lock for these frees, and one of many
    /// threads takes it for the first blocks of each.
    #[inline(always)]
    pub fn shares(&self, class: usize) -> bool {
        let got_less = |(got, most): (&Cell<u8>, &u8)| got.get() < *most;
        self.shared.shares.get()
            && self.shared.got.get(class).zip(MOST.get(class)).is_some_and(got_less)
    }

    /// Takes blocks of a shared page, as many as the heap got of this class before. Returns the
    /// first block; the rest becomes the heap's list. None: `parked` has no block to give.
    #[cold]
    #[inline(never)]
    pub(in crate::heap) fn share(&self, class: usize) -> Option<Found> {
        let (size, got) = (SIZES[class], &self.shared.got[class]);
        let share = parked::share(class, (u32::from(got.get()) * UNIT).min(AT_ONCE))?;
        if got.get() == 0 {
            self.counts.make_room(class); // The heap may never take a list of its own page.
        }
        let bytes = share.count * size;
        got.set(got.get().saturating_add(bytes.div_ceil(UNIT) as u8));
        self.counts.note(class, HeapEvent::Listed, share.count);
        self.counts.note(class, HeapEvent::Claims, share.claimed.into());
        if share.carved {
            self.counts.note(class, HeapEvent::Carves, 1);
            self.counts.existing[class].add(share.count.into());
            // The totals learn of these bytes at once. Many heaps have little to tell each, and
            // `parked` tells of the frees.
            Self::tell_live(bytes.into(), bytes.into());
            segment::note_carved(bytes.into());
        } else {
            self.counts.note(class, HeapEvent::Takes, 1);
        }
        let mut rest = null_mut();
        // SAFETY: `parked::share` gave these blocks to this heap. No list has them, and carved ones
        // lie side by side in the page.
        unsafe {
            if share.carved {
                for i in (1..share.count as usize).rev() {
                    let block = share.first.wrapping_byte_add(i * size as usize);
                    Block::set_next(block, rest);
                    if share.zero {
                        harden::fresh::mark(block.cast(), size as usize);
                    }
                    rest = block;
                }
                if share.zero {
                    harden::fresh::mark(share.first.cast(), size as usize);
                }
            } else {
                rest = Block::next(share.first);
            }
        }
        self.leave_current(class);
        self.owner.front.lists[class].free.set(rest);
        NonNull::new(share.first).map(|first| (first, share.carved && share.zero))
    }

    /// Frees a block of a parked page at once. False: the caller still has the block. `count` is 1,
    /// or 0 for a block that the program never had.
    ///
    /// # Safety
    /// The block is of `page`, on no list, and the caller's to free. The calling thread holds this
    /// heap.
    #[must_use]
    pub unsafe fn free_parked(&self, page: &Meta, block: *mut Block, count: u64) -> bool {
        // SAFETY: the caller gives up a block of `page` that is on no list.
        if count == 1 && unsafe { self.keep_shared(page, block) } {
            return true;
        }
        // Each time costs all threads a moment. A heap that often comes here needs a page of its
        // own.
        let class = usize::from(page.class.get());
        if count == 1
            && let Some((freed, got)) = self.shared.freed.get(class).zip(self.shared.got.get(class))
        {
            for count in [freed, &self.shared.freed_in_all] {
                count.set(count.get().saturating_add(1));
            }
            got.set(got.get().saturating_add(PRICE));
        }
        // SAFETY: the caller gives up a block of `page`, and the heap did not keep it: so it is on
        // no list.
        let freed = unsafe { parked::free(page, block, count) };
        if freed == Freed::No {
            return false;
        }
        if freed == Freed::WithItsPage {
            self.set_released(true);
        }
        self.outgoing.sent.add(count);
        true
    }

    /// Puts a block of a parked page onto the heap's list, if that is short. So a thread that
    /// allocates and frees blocks of a class of which it has few does not take the lock each time:
    /// of small blocks from the first time on, of others once it has done so often. False: the
    /// caller still has the block.
    ///
    /// # Safety
    /// The block is live, of `page`, and the caller's to free. The calling thread holds this heap.
    unsafe fn keep_shared(&self, page: &Meta, block: *mut Block) -> bool {
        // In the hardened build, links lead to the same segment. Samples cut lists.
        if harden::ON || profile::is_on() || guard::is_at_work() {
            return false;
        }
        check::check_start(block, page);
        let class = usize::from(page.class.get());
        // What a thread frees before it sleeps goes back to its pages, but for a few small blocks.
        let Some(freed) = self.shared.freed.get(class) else { return false };
        let is_often = freed.get() >= OFTEN || self.shared.freed_in_all.get() >= OFTEN_IN_ALL;
        let size = SIZES[class];
        let most = if is_often { (KEPT / size).max(KEPT_BLOCKS) } else { KEPT_AT_FIRST / size };
        if most == 0 {
            return false;
        }
        // SAFETY: the caller gives up a live block of `page`. Inside: while a purge pauses the
        // heap, no block of another owner's page comes onto a list (`take_away` rule 5).
        self.busy(|| unsafe { self.push_shared(page, block, class, most) })
    }

    /// Puts a block onto the heap's list of `class`, if that has fewer than `most` blocks. False:
    /// the caller still has the block.
    ///
    /// # Safety
    /// As [`Heap::keep_shared`].
    unsafe fn push_shared(&self, page: &Meta, block: *mut Block, class: usize, most: u32) -> bool {
        let list = &self.owner.front.lists[class].free;
        let (mut at, mut listed) = (list.get(), 0);
        while !at.is_null() {
            if check::CHECKED && at == block {
                check::double_free(block.cast(), page);
            }
            listed += 1;
            if listed == most {
                return false;
            }
            // SAFETY: the block is on the heap's list, so its first word is a link.
            at = unsafe { Block::next(at) };
        }
        // SAFETY: the caller gives up a live block, so its first word may hold a link from now on.
        unsafe { Block::set_next(block, list.get()) };
        list.set(block);
        // The counters show a block that went to its page and onto the list again.
        if self.counts.note(class, HeapEvent::Listed, 1) > MUCH {
            self.counts.make_room(class);
        }
        true
    }

    /// Puts back a block of the heap's list that the program never had. Its page is not the heap's.
    ///
    /// If the block goes into a batch, it counts as one that was sent and received: batches have no
    /// room to tell. So both counts may be too high by the rest of a list for each sample that cut
    /// it. The numbers of live blocks come from other counters.
    ///
    /// # Safety
    /// The block is of `page`, on no list, and the caller's to free. The calling thread holds this
    /// heap.
    pub(in crate::heap) unsafe fn put_back(&self, page: &Meta, block: *mut Block) {
        // SAFETY: the caller gives up a block of `page`. If `free_parked` returns false, the block
        // is still the caller's, and goes into a batch.
        unsafe {
            if !parked::is_owner(page.owner()) || !self.free_parked(page, block, 0) {
                self.outgoing.add(self, page, block);
            }
        }
    }
}
