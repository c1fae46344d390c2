//! A list of free blocks that frees go to, and its countdown.
//!
//! Each page has one, and a heap has one for each class. A page says which of them the frees of its
//! own thread go to (`Meta::frees_to`). `free` puts the block onto that list, and counts down,
//! without a question whose list it is.
//!
//! `until_slow` counts the frees until the slow path. What it means for the list of a page is in
//! `page`. A heap's list of blocks above `SMALL_MAX` takes `most - 1` freed blocks. The free that
//! brings the countdown to zero has put one block too many there. The slow path passes half of the
//! list on to pages. A malloc that takes a freed block off the list counts up again.
//!
//! ```text
//! freed blocks on a heap's list = most - until_slow
//! ```
//!
//! malloc takes each block as a freed one while there are such: only their number counts.
//!
//! Of smaller blocks malloc counts none. `most - until_slow` is the number of frees to the list
//! since the countdown began, and the slow path looks at the list (`heap::free::current`).
//!
//! Rules
//! 1. Only the owner of a page writes its list (`page` rule 1), and only the holder of a heap those
//!    of the heap (`heap` rule 1). A purge reads the words meanwhile (`reclaim::sleeping` rule 5).
//! 2. `most` is 0 for the list of a page, for the lists of a scope, and for a heap's list of blocks
//!    up to `SMALL_MAX` that no frees go to.

use super::page::Block;
use crate::base::word::Word;
use crate::proto::inbox::Link;
use crate::proto::take_away;

/// A list and its countdown.
#[repr(C)]
pub struct List {
    /// The first block, or null.
    pub free: Word<*mut Block>,
    /// The frees until the slow path.
    pub until_slow: Word<i32>,
    /// Of a heap's list: what `until_slow` is while the list has no freed block.
    pub most: Word<i32>,
}

impl List {
    /// A list without blocks, that frees do not go to.
    pub const fn new() -> Self {
        Self { free: Word::null(), until_slow: Word::zero(), most: Word::zero() }
    }

    /// Puts a freed block onto the list, whose first block is `first`. True: the countdown is over.
    ///
    /// # Safety
    /// The list is the caller's to write (rule 1). The block is on no list, and the caller's to
    /// free.
    #[inline(always)]
    #[must_use]
    pub unsafe fn push(&self, block: *mut Block, first: *mut Block) -> bool {
        // SAFETY: the caller gives the block up, so its first word may hold a link from now on.
        let link = || unsafe { Block::set_next(block, first) };
        let push = || take_away::keep(link, |order| self.free.set_by(block, order));
        take_away::free(push, || self.count_freed())
    }

    /// Puts `count` freed blocks onto the list, linked from `first` to `last`. True: the countdown
    /// is over.
    ///
    /// # Safety
    /// As [`List::push`], for each of the blocks.
    #[inline(always)]
    #[must_use]
    pub unsafe fn push_chain(&self, first: *mut Block, last: *mut Block, count: i32) -> bool {
        // SAFETY: the caller gives the blocks up, so their first words may hold links from now on.
        let link = || unsafe { Block::set_next(last, self.free.get()) };
        let push = || take_away::keep(link, |order| self.free.set_by(first, order));
        take_away::free(push, || {
            self.until_slow.set(self.until_slow.get() - count);
            self.until_slow.get() <= 0
        })
    }

    /// Counts one free. True: the countdown is over. For the fast path: as one instruction, which
    /// the compiler does not make of an atomic load and a store.
    #[cfg(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer))))]
    #[inline(always)]
    pub fn count_freed(&self) -> bool {
        // SAFETY: the word is the caller's to write (rule 1). The instruction loads and stores it,
        // each as a relaxed step would.
        unsafe {
            core::arch::asm!(
                "dec dword ptr [{list} + {word}]",
                "jz {over}",
                list = in(reg) self,
                word = const core::mem::offset_of!(List, until_slow),
                over = label { return true },
                options(nostack)
            );
        }
        false
    }

    /// The same for checkers, which read no assembly, and for processors that load and then store.
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer)))))]
    #[inline(always)]
    pub fn count_freed(&self) -> bool {
        // At a glance: of a plain load the compiler makes one more instruction on aarch64.
        let until_slow = self.until_slow.glance() - 1;
        self.until_slow.set(until_slow);
        until_slow == 0
    }

    /// For a heap's list in the child of a fork. The heap's thread may have been between the end of
    /// the countdown and what follows: then no further free would bring it to zero.
    pub fn mend_countdown(&self) {
        if self.most.get() != 0 && self.until_slow.get() <= 0 {
            self.until_slow.set(1);
        }
    }

    /// For a heap's list of small blocks in the child of a fork, which counts none of the frees
    /// before it.
    pub fn forget_kept(&self) {
        self.until_slow.set(self.most.get());
    }

    /// A heap's list of small blocks takes `room` frees from now on.
    #[inline(always)]
    pub fn renew(&self, room: i32) {
        // In this order another thread seldom reads frees that there were not.
        self.most.set(0);
        self.until_slow.set(room);
        self.most.set(room);
    }

    /// The freed blocks on a heap's list; of small blocks the frees since the countdown began. For
    /// any thread: a number that the list had.
    pub fn kept(&self) -> u32 {
        (self.most.glance() - self.until_slow.glance()).max(0) as u32
    }

    /// A block was taken off a heap's list. True: it was a freed one, and this counted up. Without
    /// a branch, as no processor can predict the answer.
    #[inline(always)]
    pub fn count_taken(&self) -> bool {
        let until_slow = self.until_slow.get();
        let was_freed = until_slow < self.most.get();
        self.until_slow.set(until_slow + i32::from(was_freed));
        was_freed
    }

    /// Of a heap's list: no freed block is on it, and it takes up to `most` of them.
    pub fn begin(&self, most: u8) {
        self.most.set(i32::from(most) + 1);
        self.until_slow.set(i32::from(most) + 1);
    }
}
