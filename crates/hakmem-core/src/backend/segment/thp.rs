//! Huge pages: which segments ask for them, which are refused them, and how hakmem takes back what
//! it told the kernel.
//!
//! Rules
//! 1. The word `thp` of a segment is what hakmem told the kernel. The owner of a fresh segment sets
//!    it. Later a thread swaps it, and counts in `REFUSED` and `tried` what it found there.
//! 2. A segment of which a part was given back is refused huge pages. Then `segment` rule 2 holds
//!    for the CLEAN slots that it gives back as well.

use super::purge::give_back;
use super::totals::small_segments;
use super::{TOTALS, head_of, rebin};
use crate::backend::arena::{self, SEGMENT};
use crate::backend::owner::HEAPS;
use crate::backend::page::{Meta, NOT_THP, THP, TRIED, UNTOLD};
use crate::backend::{first_touch, tried};
use crate::base::sync::{AtomicUsize, Ordering::Relaxed};
use crate::os;
use crate::policy::{self, Thp};

/// The slots of a page of medium blocks.
const PAGE_SLOTS: u32 = 8;
/// Segments that are refused huge pages. Each makes a map of its own among its neighbours, and the
/// system limits the number of maps of a process.
#[unsafe(link_section = ".data.hakmem")]
pub(super) static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// The most of them before a segment that never asked for huge pages gets none: 16 GiB, and an
/// eighth of the maps that Linux allows a process, or a quarter with those between them.
pub(super) const MOST_UNTOLD: usize = 8192;
/// The most of them in any case. The kernel may fill the holes of further ones again.
pub(super) const MOST: usize = 2 * MOST_UNTOLD;

/// So many heaps may have little-used pages in segments that ask where system pages are dear.
const FEW_HEAPS: usize = 4;

/// What decides whether a fresh segment gets huge pages. Programs write most of a page that has
/// many blocks in use, and need not write all of a large or medium block.
struct Facts {
    /// The segment is for a page of small or medium blocks, not for a large block.
    is_page: bool,
    /// Segments in use.
    in_use: usize,
    /// Segments' worth of pages of small blocks.
    small: usize,
    /// So much of these pages is carved that the program fills them. Of many threads' little-used
    /// pages it touches only the beginning: so it is three quarters of the bytes, or half of them
    /// while there is only one heap, which fills what it has before it claims more.
    is_carved: bool,
    /// Thread heaps that were made. Of several, one says nothing of the others.
    heaps: usize,
    /// `THP_FROM_SEGMENTS`.
    from: usize,
}

impl Facts {
    /// The facts for a segment whose first `n` slots are claimed.
    fn read(n: u32) -> Self {
        let small = small_segments();
        let carved = TOTALS.carved.load(Relaxed).max(0) as usize;
        let heaps = HEAPS.load(Relaxed) as usize;
        let least = small * SEGMENT / 4 * if heaps > 1 { 3 } else { 2 };
        Self {
            is_page: n == 1 || n == PAGE_SLOTS,
            in_use: TOTALS.in_use.load(Relaxed),
            small,
            is_carved: carved >= least,
            heaps,
            from: policy::THP_FROM_SEGMENTS.get() as usize,
        }
    }

    /// True if the program will fill the segment: it is for a page, enough pages are in use, they
    /// are carved, and they are half of what is in use.
    fn is_filled(&self) -> bool {
        self.is_page && self.is_carved && self.small >= self.from && self.small * 2 >= self.in_use
    }

    /// True if the segment, at address `at`, may try huge pages. Where carved pages are a quarter
    /// of what is in use, any segment may. Else it may only if others like it were found full, and
    /// one for a page of several heaps only if the pages are carved, too.
    fn may_try(&self, at: usize) -> bool {
        let trial = if self.is_carved && self.small * 4 >= self.in_use {
            &tried::SMALL
        } else if !self.is_page {
            &tried::LARGE
        } else if self.is_carved || self.heaps <= 1 {
            &tried::PAGES
        } else {
            return false;
        };
        self.in_use > self.from + 1 && trial.may(at, 1, 1)
    }

    /// True if the segment may try huge pages because system pages are dear here: one for a page,
    /// once there are two segments for each heap. In a process of more than a few heaps, it may
    /// only if the pages are carved. One for a large block waits for its witness here, too: many
    /// programs fill little of such blocks.
    fn may_try_as_dear(&self) -> bool {
        self.is_page
            && first_touch::is_dear()
            && self.in_use >= 2 * self.heaps
            && (self.heaps <= FEW_HEAPS || self.is_carved)
            && tried::SMALL.has_room(1)
    }
}

/// Asks for huge pages for a fresh segment whose first `n` slots are claimed, or tries them, if
/// that pays. True if the caller has to call [`first_touch::touch_large`] for these slots.
pub(super) fn choose_thp(head: &Meta, n: u32) -> bool {
    let at = head.start().addr();
    let facts = Facts::read(n);
    let told = match Thp::now() {
        Thp::Always => THP,
        Thp::Auto if facts.is_filled() => THP,
        Thp::Auto if facts.may_try_as_dear() || facts.may_try(at) => TRIED,
        _ => UNTOLD,
    };
    let may_ask = || Thp::now() != Thp::Auto || first_touch::may_ask();
    let asks = told != UNTOLD && may_ask() && os::want_thp(at, SEGMENT);
    if asks {
        head.segment().thp.store(told, Relaxed);
        if told == TRIED {
            tried::take(1);
        }
    }
    // Else the slots are for a page, which its heap mostly touches, or for a large block as long as
    // one. A program that asks for a large block will touch it, too.
    !facts.is_page || asks && first_touch::is_huge_dear()
}

/// Refuses huge pages in the segment of `page`, because a part of it was given back. Otherwise the
/// kernel would fill that part again, by its own choice, too. A huge page is resident as a whole,
/// so this gives the CLEAN slots back as well.
pub fn refuse_thp(page: &Meta) {
    let meta = page.segment();
    let told = meta.thp.load(Relaxed);
    let most = if told == UNTOLD { MOST_UNTOLD } else { MOST };
    if told == NOT_THP || REFUSED.load(Relaxed) >= most {
        return;
    }
    match meta.thp.swap(NOT_THP, Relaxed) {
        NOT_THP => return,
        TRIED => tried::give(1),
        _ => {}
    }
    REFUSED.fetch_add(1, Relaxed);
    let (arena, segment) = page.segment_in_arena();
    let head = head_of(arena, segment);
    os::refuse_thp(head.start().addr(), SEGMENT);
    let mask = meta.slots.claim_clean();
    if mask != 0 {
        give_back(head, mask);
        // SAFETY: this thread has just claimed the slots of `mask`, and nobody has written to them.
        // If the system did not take a slot's memory, that memory is still zero.
        unsafe { meta.slots.release(mask, false) };
        rebin(arena, segment);
    }
}

/// Takes back what hakmem told the kernel about a segment, if anything: maps it afresh. The segment
/// is wholly the caller's. The next one to take it then gets what the system gives, and the map
/// joins its neighbours' again.
///
/// # Safety
/// The caller owns all of the segment, and nobody uses what is in it any more.
pub(super) unsafe fn forget_advice(run: arena::Run) {
    let told = head_of(run.0, run.1).segment().thp.swap(UNTOLD, Relaxed);
    match told {
        NOT_THP => _ = REFUSED.fetch_sub(1, Relaxed),
        TRIED => tried::give(1),
        _ => {}
    }
    if told != UNTOLD {
        // SAFETY: by the caller's promise the segment is the caller's, and its contents are unused.
        unsafe { arena::decommit_run(run, 1) };
    }
}
