//! From an address to the arena and the slot, and between a slot and its metadata.
//!
//! Rules
//! 1. What `find` does not name is foreign (`arena` rules 1 and 5).
//! 2. Any thread may ask about any address. Nothing here reads what lies there.

use super::{Arena, GROUP, GUARD, HOT, META, SEGMENT, SEGMENT_META, SLOT, SLOT_SHIFT, all};
use crate::base::sync::Ordering::{Acquire, Relaxed};
use crate::os;

/// The arena and the number of the slot that `address` lies in. None: the address is foreign.
/// O(arenas).
pub fn find(address: usize) -> Option<(&'static Arena, usize)> {
    all().find_map(|arena| {
        let offset = address.wrapping_sub(arena.data.load(Relaxed));
        let slot = offset >> SLOT_SHIFT;
        let end = arena.segments.load(Relaxed) * (SEGMENT / SLOT) - arena.cut.load(Relaxed);
        (arena.from.load(Relaxed)..end).contains(&slot).then_some((arena, slot))
    })
}

/// True if the metadata of the slot that `address` lies in is readable for ever: the slot's group
/// is in use (`arena` rule 4). [`find`] names slots of the tail, too, whose metadata another thread
/// may unmap. So a number that may be no block's address is checked by this first. O(arenas).
pub fn is_for_ever(address: usize) -> bool {
    // Acquire: the metadata was made accessible before.
    find(address)
        .is_some_and(|(arena, slot)| slot * SLOT / SEGMENT / GROUP < arena.top.load(Acquire))
}

/// True if an address lies in the bitmaps or the metadata of an arena, or in the guard in front of
/// its data. O(arenas).
pub fn in_books(address: usize) -> bool {
    all().any(|arena| arena.has_in_books(address))
}

/// The address of the slot that a piece of metadata belongs to.
#[inline]
pub fn start_of(meta: usize) -> usize {
    let offset = meta.wrapping_sub(HOT.metas().addr());
    if offset >> META.ilog2() < HOT.limit() >> SLOT_SHIFT {
        return HOT.data() + (offset << (SLOT_SHIFT - META.ilog2()));
    }
    let (arena, slot) = of_meta(meta);
    arena.slot_address(slot)
}

/// The arena that a piece of metadata belongs to, and the number of its slot.
pub fn of_meta(meta: usize) -> (&'static Arena, usize) {
    find_meta(meta).unwrap_or_else(|| os::abort())
}

fn find_meta(meta: usize) -> Option<(&'static Arena, usize)> {
    all().find_map(|arena| {
        let offset = meta.wrapping_sub(arena.metas.load(Relaxed).addr());
        (offset / SEGMENT_META < arena.known.load(Relaxed)).then_some((arena, offset / META))
    })
}

/// True if `address` is that of a slot's metadata. O(arenas).
pub fn is_meta(address: usize) -> bool {
    address.is_multiple_of(META) && find_meta(address).is_some()
}

impl Arena {
    /// Another mapping may lie behind the metadata that is known: there a tail was given up.
    pub(super) fn has_in_books(&self, address: usize) -> bool {
        let (books, metas) = (self.summary.load(Relaxed).addr(), self.metas.load(Relaxed).addr());
        let data = self.data.load(Relaxed);
        // What a scrap does not own may be another mapping.
        let is_guard = self.from.load(Relaxed) == 0 && (data - GUARD..data).contains(&address);
        is_guard || (books..metas + self.known.load(Relaxed) * SEGMENT_META).contains(&address)
    }
}
