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

/// Asks for huge pages for a fresh segment, if that pays. Of many threads' little-used pages,
/// programs touch only the beginning: so three quarters of the bytes of pages must be carved, or
/// half of them while there is only one heap: it fills what it has before it claims more. If pages
/// are half of what is in use, too, and enough segments' worth of them, a segment for a page asks.
/// Programs need not write all of a large or medium block. So any other segment asks up to a bound
/// (`tried`) if pages are a quarter of what is in use. Else it asks only if others like it were
/// found full; in a process of several heaps, of which one says nothing of the others, a segment
/// for a page does so only if the pages are carved, too. Where system pages are dear
/// (`first_touch`), any segment asks up to the bound once there are two for each heap; in a process
/// of more than a few heaps one for a page does so only if the pages are carved.
pub(super) fn choose_thp(head: &Meta, n: u32) {
    let from = policy::THP_FROM_SEGMENTS.get() as usize;
    let choice = Thp::now();
    let small = small_segments();
    let carved = TOTALS.carved.load(Relaxed).max(0) as usize;
    let in_use = TOTALS.in_use.load(Relaxed);
    let is_page = n == 1 || n == PAGE_SLOTS;
    let half = |part: usize, whole: usize| part * 2 >= whole;
    let heaps = HEAPS.load(Relaxed) as usize;
    let has_several_heaps = heaps > 1;
    let is_carved = match has_several_heaps {
        false => half(carved, small * SEGMENT),
        true => carved * 4 >= small * SEGMENT * 3,
    };
    let asks = choice == Thp::Auto && is_carved;
    let is_filled = is_page && small >= from && half(small, in_use);
    let at = head.start().addr();
    let may_try = || match is_page {
        _ if asks && small * 4 >= in_use => tried::SMALL.may(at, 1, 1),
        true => (asks || !has_several_heaps) && tried::PAGES.may(at, 1, 1),
        false => tried::LARGE.may(at, 1, 1),
    };
    let may_try_early = || {
        first_touch::is_dear()
            && in_use >= 2 * heaps
            && (!is_page || heaps <= FEW_HEAPS || asks)
            && tried::SMALL.has_room(1)
    };
    let tries = choice == Thp::Auto
        && !(asks && is_filled)
        && (may_try_early() || in_use > from + 1 && may_try());
    let wanted = choice == Thp::Always || asks && is_filled || tries;
    let told = &head.segment().thp;
    if wanted && os::want_thp(at, SEGMENT) {
        told.store(if tries { TRIED } else { THP }, Relaxed);
        if tries {
            tried::take(1);
        }
    }
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
