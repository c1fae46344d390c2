//! Claims that find no listed segment with room. They take a fresh segment from the arena, or a
//! scrap.
//!
//! Rules
//! 1. The thread owns all slots of a segment that it takes, until it releases those that the claim
//!    does not need. Then it runs `rebin` (`segment` rule 2).
//! 2. Slots that lie outside a scrap stay claimed for ever.

use super::thp::choose_thp;
use super::{PER_SEGMENT, TOTALS, claim_in, head_of, rebin, taken_dirty};
use crate::backend::arena::{self, SLOT};
use crate::backend::nodes::Groups;
use crate::backend::page::{Meta, NOT_THP};
use crate::backend::{first_touch, held};
use crate::base::sync::Ordering::Relaxed;
use crate::proto::slots::{SLOTS, run};

#[unsafe(link_section = ".text.hot.hakmem")]
pub(super) fn claim_fresh(n: u32, wanted: Groups) -> Option<(&'static Meta, bool)> {
    let bytes = n as usize * SLOT;
    if !held::take(bytes) {
        return None;
    }
    let Some((arena, segment)) = arena::take_segment(wanted) else {
        held::give(bytes);
        return None;
    };
    let head = head_of(arena, segment);
    // This thread owns all slots of the run. A segment that was never used has no slot claimed, and
    // one that was used is retired (`segment` rule 3).
    head.segment().slots.retire();
    TOTALS.in_use.fetch_add(1, Relaxed);
    let is_to_touch = choose_thp(head, n);
    if n < SLOTS {
        // SAFETY: this thread owns all slots of the fresh segment. It keeps the first `n`, and lets
        // go of the others.
        unsafe { head.segment().slots.release(run(n, SLOTS - n), false) };
    }
    rebin(arena, segment);
    if is_to_touch {
        // SAFETY: the first slot is one of the `n` that this thread keeps (rule 1). The segment
        // came accessible and zero from the arena, and nobody has written there since.
        unsafe { first_touch::touch_large(head.start(), head.segment().is_thp()) };
    }
    Some((head, true))
}

/// Claims from the last of the address space: slots of a scrap, which has no whole segment. The
/// other slots of its segments stay claimed, so these segments never go back to the arena.
#[cold]
pub(super) fn claim_scrap(n: u32) -> Option<(&'static Meta, bool)> {
    if !held::has_room(n as usize * SLOT) {
        return None;
    }
    let (arena, first, end) = arena::take_scrap(n as usize)?;
    for segment in 0..end.div_ceil(PER_SEGMENT) {
        let (from, to) = (segment * PER_SEGMENT, (segment + 1) * PER_SEGMENT);
        let meta = head_of(arena, segment).segment();
        meta.slots.retire();
        // A part of the segment may be another mapping, so hakmem tells the kernel nothing.
        meta.thp.store(NOT_THP, Relaxed);
        TOTALS.in_use.fetch_add(1, Relaxed);
        let (first, end) = (first.max(from) - from, end.min(to) - from);
        if first < end {
            // SAFETY: this thread owns all slots of the fresh segment. It lets go of these, which
            // lie in the scrap, and uses them no more.
            unsafe { meta.slots.release(run(first as u32, (end - first) as u32), false) };
            rebin(arena, segment);
        }
    }
    claim_in(arena, n, Groups::ALL, taken_dirty)
}
