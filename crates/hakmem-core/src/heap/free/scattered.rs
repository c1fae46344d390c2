//! Frees of small blocks that lie scattered over many pages of other owners: the heap keeps some of
//! them, and allocates them again.
//!
//! Where each thread frees blocks of all others, a remote batch has one or two blocks. To send and
//! merge it costs as much as for many, and each send writes the inboxes of all these owners. So a
//! block that joins no open batch stays here, while there are few of its class.
//!
//! A block of a parked page goes back to it. All parked pages have one inbox. Few blocks of most of
//! them are live: allocated here and there again, such blocks would keep each of these pages.
//!
//! ```text
//! free:    the heap's list ← push, and after MOST bytes  the blocks that are kept apart ← push
//! refill:  the blocks that are kept apart → the heap's list, all of them
//! ```
//!
//! Rules
//! 1. A block of less than 64 bytes, a line of most caches, is sent. If this heap allocated it
//!    again, several threads would write to that line. Of a larger block, two lines at most are
//!    shared.
//! 2. malloc does not count the blocks that it takes off the heap's list. So the heap does not know
//!    how many of these blocks the list still has, unless it walks it: that takes too long for one
//!    call. But a refill finds the list empty. So `MOST` bytes go onto the list after a refill.
//!    What comes then is kept apart, and counted, up to `MOST` bytes again.
//! 3. A class keeps blocks only after a refill, of which `HeapEvent::Listed` tells. Without one,
//!    perhaps the thread only frees blocks of this class.
//!    If both places are full, the heap sends some of the next blocks. If no refill comes
//!    meanwhile, the thread frees more than it allocates. What is kept would keep pages of others
//!    if the thread slept. So the heap gives all of it back, and the class keeps none for long.
//! 4. No block of a parked page is kept, by the owner that the free read. So nothing here depends
//!    on whether a purge pauses the heap, as it does in [`Heap::keep_remote`].
//! 5. Only the holder uses what is kept apart. A purge that looks at a page of such a block counts
//!    the block as used, and leaves the page.
//! 6. What is kept apart goes back, too, if the heap's frees are scattered no more, and in
//!    [`Heap::collect`].

use crate::backend::check;
use crate::backend::owner::Owner;
use crate::backend::page::{Block, Meta};
use crate::base::size_class::{FIRST_LONG, SIZES};
use crate::heap::Heap;
use crate::heap::counts::HeapEvent;
use crate::heap::free::MUCH;
use crate::heap::reclaim::parked;
use crate::proto::inbox::Link;
use crate::{guard, harden, profile};
use core::cell::Cell;
use core::ptr::{NonNull, null_mut};

/// The bytes that a class keeps in each of two places at most.
const MOST: u32 = 48 << 10;
/// The size of the smallest block that is kept (rule 1).
const LEAST: u32 = 64;
/// A class whose blocks went back keeps none while blocks of so many times `MOST` bytes are freed
/// (rule 3).
const LONG: u32 = 8;

/// Of `Heap::has_scattered`: where `Scattered::listed` differs from the counters, a refill was.
const KNOWN: u64 = 1 << 63;

/// How many blocks of `class` are in `MOST` bytes.
fn most(class: usize) -> i16 {
    (MOST / SIZES[class]) as i16
}

/// Where a heap keeps a block.
enum Place {
    /// On its list: the next allocation gets it.
    List,
    /// In [`Scattered`].
    Apart,
    /// Nowhere.
    None,
}

/// What a heap keeps apart, for each class up to `SMALL_MAX`. All zero bytes: nothing. It lies
/// behind the first 4 KiB of the heap, and a refill reads `Heap::has_scattered` first.
pub struct Scattered {
    /// The first of them, or null. The others are linked to it.
    first: [Cell<*mut Block>; FIRST_LONG],
    /// How many they are.
    count: [Cell<i16>; FIRST_LONG],
    /// Above 0, how many more may go onto the heap's list; below 0, how many blocks are sent first.
    room: [Cell<i16>; FIRST_LONG],
    /// The blocks that came onto the heap's list until a free last asked, as `HeapEvent::Listed`
    /// counts them. If the count differs by now, a refill was since.
    listed: [Cell<u32>; FIRST_LONG],
}

impl Scattered {
    /// The number of blocks of `class` that are kept apart.
    pub(in crate::heap) fn count(&self, class: usize) -> u32 {
        self.count.get(class).map_or(0, |count| count.get() as u32)
    }
}

impl Heap {
    /// Keeps a block of a page that another owner has, if the heap's last batches had few blocks
    /// and it has not kept many of the class. False: the caller still has the block. O(1)
    /// amortised.
    ///
    /// # Safety
    /// The calling thread holds this heap. The block is live, of `page`, whose owner was `owner`,
    /// and the caller's to free.
    #[must_use]
    pub unsafe fn keep_scattered(&self, page: &Meta, owner: *mut Owner, block: *mut Block) -> bool {
        if !self.outgoing.is_scattered() {
            if self.has_scattered.get() & !KNOWN != 0 && !self.is_busy() {
                self.put_next_scattered_back();
            }
            return false;
        }
        // In the hardened build, links lead to the same segment. Samples cut lists.
        if parked::is_owner(owner)
            || harden::ON
            || profile::is_on()
            || guard::is_at_work()
            || self.home.is_far(page)
        {
            return false;
        }
        let (class, size) = (usize::from(page.class.get()), page.block_size.get());
        let Some(first) = self.scattered.first.get(class) else { return false };
        if size < LEAST || !check::may_start(block, class as u8) {
            return false; // The batch says what is wrong.
        }
        let newest = first.get();
        // SAFETY: a block that is kept apart is this heap's, so its first word is a link.
        let second = || unsafe { Block::next(newest) };
        if check::CHECKED
            && (newest == block
                || !newest.is_null() && second() == block
                || self.owner.front.lists[class].free.get() == block)
        {
            check::double_free(block.cast(), page);
        }
        if self.has_scattered.get() & KNOWN == 0 {
            self.look_for_refills();
        }
        match self.place_of_next(class) {
            Place::None => return false,
            // SAFETY: the caller gives up a live block of a page of `class`, which was not parked
            // when the free read its owner (rule 4).
            Place::List => unsafe { self.list_of_other(class, block) },
            Place::Apart => {
                // SAFETY: the caller gives up a live block, so its first word may hold a link from
                // now on.
                unsafe { Block::set_next(block, newest) };
                first.set(block);
                self.has_scattered.set(self.has_scattered.get() | 1 << class);
                let count = &self.scattered.count[class];
                count.set(count.get() + 1);
            }
        }
        // The counters show a block that went to its page and onto the list again.
        let listed = self.counts.note(class, HeapEvent::Listed, 1);
        self.scattered.listed[class].set(listed);
        if listed > MUCH {
            self.counts.make_room(class);
        }
        true
    }

    /// Where the next block of `class` is kept (rule 3).
    #[inline(always)]
    fn place_of_next(&self, class: usize) -> Place {
        let (kept, most) = (&self.scattered, most(class));
        let (room, some) = (&kept.room[class], most / 4);
        let listed = self.counts.recent(class, HeapEvent::Listed);
        let is_refilled = kept.listed[class].replace(listed) != listed;
        if is_refilled && room.get() >= -some {
            room.set(most);
        }
        if room.get() > 0 {
            room.set(room.get() - 1);
            return Place::List;
        }
        if room.get() == 0 {
            if kept.count[class].get() < most {
                return Place::Apart;
            }
            room.set(-some);
        }
        room.set(room.get() + 1);
        if room.get() == 0 {
            self.end_sends(class);
        }
        Place::None
    }

    /// No refill came while blocks of `class` were sent.
    #[cold]
    #[inline(never)]
    fn end_sends(&self, class: usize) {
        let (room, most) = (&self.scattered.room[class], most(class));
        room.set(-(most / 4));
        let is_listed = !self.owner.front.lists[class].free.get().is_null();
        if (is_listed || self.scattered.count[class].get() != 0) && !self.is_busy() {
            self.busy(|| {
                self.put_list_back(class);
                self.put_scattered_back(class);
            });
            room.set(-(most * LONG as i16));
        }
    }

    /// Takes what is kept apart of `class`: the first block, linked to the others, and how many
    /// they are.
    #[inline(always)]
    fn take_scattered(&self, class: usize) -> Option<(NonNull<Block>, i16)> {
        if self.has_scattered.get() & 1 << class == 0 {
            return None;
        }
        self.has_scattered.set(self.has_scattered.get() & !(1 << class));
        let first = NonNull::new(self.scattered.first[class].replace(null_mut()))?;
        Some((first, self.scattered.count[class].replace(0)))
    }

    /// Moves what is kept apart of `class`, if anything is, to the heap's list, which is empty, and
    /// takes the first block. The caller is inside.
    #[inline(always)]
    pub(in crate::heap) fn refill_from_scattered(&self, class: usize) -> Option<NonNull<Block>> {
        let (first, count) = self.take_scattered(class)?;
        self.scattered.room[class].set(most(class) - count);
        self.owner.front.lists[class].free.set(first.as_ptr());
        self.take_listed(class)
    }

    /// The next blocks are kept only after refills from now on (rule 3).
    pub(in crate::heap) fn forget_refills(&self) {
        self.has_scattered.set(self.has_scattered.get() & !KNOWN);
    }

    /// Begins to look for refills.
    #[cold]
    #[inline(never)]
    fn look_for_refills(&self) {
        for (class, room) in self.scattered.room.iter().enumerate() {
            room.set(room.get().min(-(most(class) / 4)));
            self.scattered.listed[class].set(self.counts.recent(class, HeapEvent::Listed));
        }
        self.has_scattered.set(self.has_scattered.get() | KNOWN);
    }

    /// The count of blocks that came onto the list of `class` was `before`. What it is now is by
    /// frees of the heap's own blocks, which are no refill.
    pub(super) fn follow_listed(&self, class: usize, before: u32) {
        if self.has_scattered.get() & KNOWN != 0
            && let Some(listed) = self.scattered.listed.get(class)
            && listed.get() == before
        {
            listed.set(self.counts.recent(class, HeapEvent::Listed));
        }
    }

    /// Gives what is kept apart of one class back: the heap's frees are not scattered any more.
    #[cold]
    #[inline(never)]
    fn put_next_scattered_back(&self) {
        let class = self.has_scattered.get().trailing_zeros() as usize;
        self.busy(|| self.put_scattered_back(class));
        // The counters went back, which is no refill.
        self.forget_refills();
    }

    /// Gives what is kept apart of `class` back. The caller is inside. O(blocks).
    pub(in crate::heap) fn put_scattered_back(&self, class: usize) {
        if let Some((first, _)) = self.take_scattered(class) {
            self.put_blocks_back(class, first.as_ptr());
        }
    }
}

// A class of `SMALL_MAX` bytes keeps some blocks, and no number of blocks is too large.
const _: () = assert!(MOST / SIZES[FIRST_LONG - 1] >= 16 && MOST / LEAST * LONG <= i16::MAX as u32);
