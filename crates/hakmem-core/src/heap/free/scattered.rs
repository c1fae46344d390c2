//! Frees of small blocks that lie scattered over many pages of other owners: the heap keeps some of
//! them, and allocates them again.
//!
//! Where each thread frees blocks of all others, a remote batch has one or two blocks. To send and
//! merge it costs as much as for many, and each send writes the inboxes of all these owners. So a
//! block that joins no open batch stays on the heap's own list of its class, while that is short.
//!
//! A block of a parked page goes back to it. All parked pages have one inbox. Few blocks of most of
//! them are live: allocated here and there again, such blocks would keep each of these pages.
//!
//! Rules
//! 1. A block of less than 64 bytes, a line of most caches, is sent. If this heap allocated it
//!    again, several threads would write to that line. Of a larger block, two lines at most are
//!    shared.
//! 2. malloc does not count the blocks of a list. So [`Turns`] counts the frees of such blocks
//!    since the list was empty: a refill says so. After many of them the heap walks the list, which
//!    may have blocks of its own page, too: at most four steps for each free.
//! 3. An empty list takes no block: perhaps the thread only frees blocks of this class. If a list
//!    is nearly full, the heap sends some of the next blocks. If the list is nearly full after them
//!    still, the thread frees more than it allocates. What is listed would keep pages of others if
//!    the thread slept. So the heap gives all of the list back, and the list takes no block for
//!    long.
//! 4. No block of a parked page comes onto the list, by the owner that the free read. So nothing
//!    here depends on whether a purge pauses the heap, as it does in [`Heap::keep_remote`].

use crate::backend::check;
use crate::backend::owner::Owner;
use crate::backend::page::{Block, Meta};
use crate::base::size_class::{FIRST_LONG, SIZES};
use crate::heap::Heap;
use crate::heap::counts::HeapEvent;
use crate::heap::free::MUCH;
use crate::heap::reclaim::parked;
use crate::{guard, harden, profile};
use core::cell::Cell;

/// The bytes of a list that takes no further block.
const MOST: u32 = 48 << 10;
/// The size of the smallest block that is kept (rule 1).
const LEAST: u32 = 64;
/// A list that went back takes none while blocks of so many times `MOST` bytes are freed (rule 3).
const LONG: u32 = 8;

/// For each class up to `SMALL_MAX`, what follows. All zero bytes: the heap walks the list at once.
pub struct Turns {
    /// Above 0, how many blocks the list may get before the heap walks it again; below 0, how many
    /// are sent first.
    left: [Cell<i16>; FIRST_LONG],
    /// The blocks that came onto the list until this heap last kept one, as `HeapEvent::Listed`
    /// counts them. If the count differs by now, a refill was since, which found the list empty, or
    /// in rare cases blocks were taken off: then the list may get as much again.
    listed: [Cell<u32>; FIRST_LONG],
}

impl Turns {
    /// Forgets how much the lists may still get, as they were emptied: an empty list takes none
    /// (rule 3).
    pub(in crate::heap) fn renew(&self) {
        self.left.iter().filter(|turn| turn.get() > 0).for_each(|turn| turn.set(0));
    }

    /// The count of blocks that came onto the list of `class` went from `before` to `after` by
    /// frees of the heap's own blocks, which are no refill.
    pub(super) fn follow(&self, class: usize, before: u32, after: u32) {
        if let Some(listed) = self.listed.get(class)
            && listed.get() == before
        {
            listed.set(after);
        }
    }
}

impl Heap {
    /// Keeps a block of a page that another owner has, if the heap's last batches had few blocks
    /// and the list is short. False: the caller still has the block. O(1) amortised.
    ///
    /// # Safety
    /// The calling thread holds this heap. The block is live, of `page`, whose owner was `owner`,
    /// and the caller's to free.
    #[must_use]
    pub unsafe fn keep_scattered(&self, page: &Meta, owner: *mut Owner, block: *mut Block) -> bool {
        // In the hardened build, links lead to the same segment. Samples cut lists.
        if !self.outgoing.is_scattered()
            || parked::is_owner(owner)
            || harden::ON
            || profile::is_on()
            || guard::is_at_work()
            || self.home.is_far(page)
        {
            return false;
        }
        let (class, size) = (usize::from(page.class.get()), page.block_size.get());
        let Some(turn) = self.turns.left.get(class) else { return false };
        if size < LEAST || !check::may_start(block, class as u8) {
            return false; // The batch says what is wrong.
        }
        if check::CHECKED && self.owner.front.lists[class].free.get() == block {
            check::double_free(block.cast(), page);
        }
        let (known, listed) =
            (&self.turns.listed[class], self.counts.recent(class, HeapEvent::Listed));
        let most = (MOST / size) as i16;
        let is_refilled =
            known.get() != listed && !self.owner.front.lists[class].free.get().is_null();
        if is_refilled && turn.get() >= -(most / 4) {
            turn.set(most);
        } else if turn.get() == 0 {
            turn.set(self.next_turn(class));
        }
        known.set(listed);
        if turn.get() < 0 {
            turn.set(turn.get() + 1);
            if turn.get() == 0 {
                turn.set(self.turn_after_sends(class));
            }
            return false;
        }
        // SAFETY: the caller gives up a live block of a page of `class`, which was not parked when
        // the free read its owner (rule 4).
        unsafe { self.list_of_other(class, block) };
        // The counters show a block that went to its page and onto the list again.
        if self.counts.note(class, HeapEvent::Listed, 1) > MUCH {
            self.counts.make_room(class);
        }
        turn.set(turn.get() - 1);
        known.set(listed.wrapping_add(1));
        true
    }

    /// [`Heap::next_turn`] after a turn in which blocks were sent (rule 3).
    #[cold]
    #[inline(never)]
    fn turn_after_sends(&self, class: usize) -> i16 {
        let turn = self.next_turn(class);
        if turn > 0 || self.owner.front.lists[class].free.get().is_null() || self.is_busy() {
            return turn;
        }
        self.busy(|| self.put_list_back(class));
        -((MOST / SIZES[class] * LONG) as i16)
    }

    /// Walks the list of `class`, and says what follows: see [`Turns`]. Never 0.
    #[cold]
    fn next_turn(&self, class: usize) -> i16 {
        let most = (MOST / SIZES[class]) as i16;
        let mut at = self.owner.front.lists[class].free.get();
        let mut listed = 0;
        while !at.is_null() && listed < most {
            listed += 1;
            // SAFETY: the block is on the list of the heap, which the calling thread holds (`heap`
            // rule 1), so its first word is a link.
            at = unsafe { Self::checked_next(class, at) };
        }
        if listed == 0 || listed > most / 4 * 3 { -(most / 4) } else { most - listed }
    }
}

// A class of `SMALL_MAX` bytes has turns of some blocks, and no number of blocks is too large.
const _: () = assert!(MOST / SIZES[FIRST_LONG - 1] >= 16 && MOST / LEAST * LONG <= i16::MAX as u32);
