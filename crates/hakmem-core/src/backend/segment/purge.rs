//! The purge of a segment. It gives the dirty slots back to the system, and the segment itself to
//! the arena once the segment is wholly free.
//!
//! Rules
//! 1. The purge claims slots before it gives them back. So they are its own meanwhile.
//! 2. It retires a segment before the arena gets it (`segment` rule 3).

use super::thp::{forget_advice, refuse_thp};
use super::{TOTALS, head_of, rebin};
use crate::backend::arena::{self, Arena, DIRTY_ROW, SLOT};
use crate::backend::held;
use crate::backend::page::Meta;
use crate::base::sync::Ordering::Relaxed;
use crate::os;
use crate::proto::slots::run;

/// What a purge of a segment did.
#[derive(Default)]
pub struct Purged {
    /// The bytes given back.
    pub given: usize,
    /// True if the system refused some.
    pub is_refused: bool,
}

/// Gives the DIRTY slots of a segment back to the system, if the last one became DIRTY at least
/// `decay` ms before `now`. If the segment is then wholly free, it goes back to the arena.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn purge(arena: &'static Arena, segment: usize, now: u32, decay: u32) -> Purged {
    let head = head_of(arena, segment);
    let meta = head.segment();
    if os::age(now, meta.stamp.load(Relaxed)) < decay {
        return Purged::default();
    }
    arena.unlist(DIRTY_ROW, segment);
    let mask = meta.slots.claim_dirty();
    let clean = give_back(head, mask);
    let (kept, given) = (mask & !clean, clean.count_ones() as usize * SLOT);
    TOTALS.dirty.fetch_sub(given, Relaxed);
    held::give(given);
    // SAFETY: this thread claimed the slots of `mask`, and has not used them. `clean` and `kept`
    // are the two parts of it, and `clean` was given back, so it is zero.
    unsafe {
        meta.slots.release(clean, false);
        if kept != 0 {
            // The memory is locked, or the system has no room for another map. The next pass after
            // a decay tries again.
            meta.slots.release(kept, true);
            meta.stamp.store(now, Relaxed);
            arena.list(DIRTY_ROW, segment);
        }
    }
    if meta.slots.retire() {
        if let Some(bin) = usize::from(meta.bin.clear()).checked_sub(1) {
            arena.unlist(bin, segment);
        }
        TOTALS.in_use.fetch_sub(1, Relaxed);
        // SAFETY: `retire` claimed all slots of the segment for this thread, and all were CLEAN:
        // nobody uses what is in them, and the segment is clean.
        unsafe {
            forget_advice((arena, segment));
            arena::give_run((arena, segment), 1);
        }
    } else {
        rebin(arena, segment);
        if given > 0 {
            refuse_thp(head);
        }
    }
    Purged { given, is_refused: kept != 0 }
}

/// Gives the slots of `mask`, which the caller owns, back to the system, neighbours by one call.
/// Returns the mask of the slots that the system took.
pub(super) fn give_back(head: &Meta, mask: u32) -> u32 {
    let (mut rest, mut given) = (mask, 0);
    while rest != 0 {
        let first = rest.trailing_zeros();
        let n = (rest >> first).trailing_ones();
        let piece = run(first, n);
        rest &= !piece;
        // SAFETY: bit `first` of `mask` is set, so the segment has such a slot.
        let start = unsafe { head.forward(first) }.start();
        if os::purge(start.addr(), n as usize * SLOT) {
            given |= piece;
        }
    }
    given
}
