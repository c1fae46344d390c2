//! Segments shared by all classes and threads. A claim takes slots of the fullest segment that has
//! room.
//!
//! Claims fill the fullest segments first. So the others become empty, and hakmem can give them
//! back whole; and full segments are dense enough for huge pages. Bitmaps list the segments with
//! free slots by their longest free run. These lists are hints: the slot word of a segment decides.
//!
//! Rules
//! 1. Slots follow `proto::slots`.
//! 2. Each thread that changes a segment's slots runs `rebin` afterwards. `rebin` ends only when
//!    the bin that it listed is that of the slots at that moment. So a segment with free slots is
//!    listed once all threads that changed it are through.
//! 3. A segment that is wholly free and clean is retired (all its slots claimed) before it goes
//!    back to the arena.

mod fresh;
mod home;
mod purge;
mod thp;
mod totals;

use crate::backend::arena::{self, Arena, BINS, DIRTY_ROW, SEGMENT, SLOT};
use crate::backend::held;
use crate::backend::nodes::Groups;
use crate::backend::page::Meta;
use crate::base::sync::Ordering::Relaxed;
use crate::os;
use crate::proto::slots::{self, Claim, SLOTS, run};

use fresh::{claim_fresh, claim_scrap};
pub use home::Home;
pub use purge::purge;
pub use thp::refuse_thp;
use totals::UNTOLD;
#[cfg(test)]
pub use totals::dirty_bytes;
pub use totals::{
    TOTALS, expected_dirty_bytes, in_use, note_carved, note_small, signed_dirty_bytes,
};

/// Segments of a bin that a claim tries in vain before it goes to the next bin.
const TRIES: usize = 16;
const PER_SEGMENT: usize = SEGMENT / SLOT;

/// Claims `n` neighbouring slots. Returns the first one's metadata, and whether their memory is
/// zero. None: out of memory. Lock-free unless it needs a fresh segment; O(groups in use / 64).
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn claim(n: u32, home: &Home) -> Option<(&'static Meta, bool)> {
    home.ask_if_due();
    if home.number.get() == 0 {
        return claim_somewhere(n, home.groups(), taken_dirty);
    }
    home.claim(n).or_else(|| home.claim_another(n))
}

/// [`claim`] for a caller without a heap.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn claim_anywhere(n: u32) -> Option<(&'static Meta, bool)> {
    claim_somewhere(n, Groups::ALL, taken_dirty)
}

/// [`claim_anywhere`], but in `wanted` groups if they have room. Calls `taken` with the number of
/// dirty slots that it claimed.
#[inline(always)]
fn claim_somewhere(
    n: u32,
    wanted: Groups,
    taken: impl Fn(i32) + Copy,
) -> Option<(&'static Meta, bool)> {
    // A loop, not an adapter of an iterator: its code would lie apart.
    for arena in arena::all() {
        let found = claim_in(arena, n, wanted, taken);
        if found.is_some() {
            return found;
        }
    }
    claim_fresh(n, wanted)
        .or_else(|| if wanted == Groups::ALL { claim_scrap(n) } else { claim_far(n) })
}

/// Claims anywhere, when the wanted groups have no room.
#[cold]
#[inline(never)]
fn claim_far(n: u32) -> Option<(&'static Meta, bool)> {
    claim_anywhere(n)
}

/// Claims all slots of a segment. Returns the first one's metadata. None: out of memory.
pub fn claim_whole() -> Option<&'static Meta> {
    let of = |arena: &'static Arena| {
        let mut listed = arena.listed(BINS - 1, Groups::ALL).take(TRIES);
        listed.find_map(|segment| claim_from(arena, segment, SLOTS, taken_dirty))
    };
    arena::all().find_map(of).or_else(|| claim_fresh(SLOTS, Groups::ALL)).map(|(meta, _)| meta)
}

#[inline(always)]
fn claim_in(
    arena: &'static Arena,
    n: u32,
    wanted: Groups,
    taken: impl Fn(i32) + Copy,
) -> Option<(&'static Meta, bool)> {
    for bin in n.ilog2() as usize..BINS {
        // In the first bin a segment may have too short a run; in the others only by a race.
        for segment in arena.listed(bin, wanted).take(TRIES) {
            if let Some(found) = claim_from(arena, segment, n, taken) {
                return Some(found);
            }
            let meta = head_of(arena, segment).segment();
            if usize::from(meta.bin.get()) != bin + 1 {
                // Two threads that rebinned at once left the segment under this bin.
                arena.unlist(bin, segment);
                rebin(arena, segment);
            }
        }
    }
    None
}

/// Counts the `n` slots that a claim took, and calls `taken` with the number of dirty ones. False:
/// the hard limit does not allow those that were CLEAN, and all are free again as they were.
#[inline(always)]
fn is_allowed(
    arena: &'static Arena,
    segment: usize,
    claim: &Claim,
    n: u32,
    taken: impl Fn(i32),
) -> bool {
    if claim.dirty < n && !held::take((n - claim.dirty) as usize * SLOT) {
        undo(arena, segment, claim, n);
        return false;
    }
    if claim.dirty != 0 {
        taken(claim.dirty as i32);
    }
    true
}

/// Lets go of the `n` slots of a claim that the hard limit forbids.
#[cold]
#[inline(never)]
fn undo(arena: &'static Arena, segment: usize, claim: &Claim, n: u32) {
    let slots = &head_of(arena, segment).segment().slots;
    // SAFETY: this thread has just claimed the slots, and has touched none. So those that were
    // CLEAN are zero.
    unsafe {
        slots.release(run(claim.first, n) & !claim.were_dirty, false);
        if claim.were_dirty != 0 {
            slots.release(claim.were_dirty, true);
            arena.list(DIRTY_ROW, segment);
        }
    }
    rebin(arena, segment);
}

/// Notes that so many dirty slots were claimed.
#[inline(always)]
fn taken_dirty(slots: i32) {
    TOTALS.dirty.fetch_sub(slots as usize * SLOT, Relaxed);
}

/// Claims from a segment, and calls `taken` with the number of dirty slots among those it claimed.
/// None: it has no such run, or the hard limit does not allow it.
#[inline(always)]
fn claim_from(
    arena: &'static Arena,
    segment: usize,
    n: u32,
    taken: impl Fn(i32),
) -> Option<(&'static Meta, bool)> {
    let head = head_of(arena, segment);
    let meta = head.segment();
    let claim = meta.slots.claim(n)?;
    if !is_allowed(arena, segment, &claim, n, taken) {
        return None;
    }
    if meta.bin.get() != listed_as(claim.free) {
        rebin(arena, segment);
    }
    // SAFETY: `claim.first` is the number of a slot of this segment, counted from `head`.
    Some((unsafe { head.forward(claim.first) }, claim.clean))
}

/// Claims the `more` slots behind the `n` from `first` on, if they are free.
pub fn extend(first: &Meta, n: u32, more: u32) -> bool {
    if first.slot() + n + more > SLOTS {
        return false;
    }
    let Some(claim) = first.segment().slots.claim_exact(run(first.slot() + n, more)) else {
        return false;
    };
    let (arena, segment) = first.segment_in_arena();
    if !is_allowed(arena, segment, &claim, more, taken_dirty) {
        return false;
    }
    rebin(arena, segment);
    true
}

/// Lets go of `n` slots from `first` on. Their memory is dirty. Lock-free, O(1).
///
/// # Safety
/// The caller owns the slots and gives them up: neither it nor anybody it told of them touches them
/// from now on. Their metadata says `Kind::Free`.
#[inline(never)]
pub unsafe fn release(first: &Meta, n: u32) {
    // SAFETY: the caller owns the slots and gives them up, and their metadata says `Kind::Free`:
    // `release_as` asks for the same. Without a home it touches no heap.
    unsafe { release_as(first, n, None) };
}

/// [`release`], for a heap with its home or for nobody.
///
/// # Safety
/// As [`release`]. True: `TOTALS` knows of the slots.
#[inline(always)]
unsafe fn release_as(first: &Meta, n: u32, home: Option<&Home>) -> bool {
    let (arena, segment) = first.segment_in_arena();
    let meta = first.segment();
    meta.stamp.store(os::now_ms(), Relaxed);
    let is_told = match home.filter(|home| home.number.get() != 0) {
        Some(home) => home.note_dirty(n as i32),
        None => {
            TOTALS.dirty.fetch_add(n as usize * SLOT, Relaxed);
            true
        }
    };
    // SAFETY: by the caller's promise it owns these slots, and nobody touches them on its behalf
    // any more.
    let free = unsafe { meta.slots.release(run(first.slot(), n), true) };
    arena.list(DIRTY_ROW, segment);
    if meta.bin.get() != listed_as(free) {
        rebin(arena, segment);
    }
    is_told
}

fn head_of(arena: &Arena, segment: usize) -> &'static Meta {
    // SAFETY: hints name only segments that were in use at some time. Their groups are in use, so
    // their metadata is accessible for ever (`arena` rule 4). All fields may be shared between
    // threads.
    unsafe { &*arena.meta(segment * PER_SEGMENT).cast::<Meta>() }
}

/// The value of a segment's `bin` field when the slots of `free` are free. 0: no slot is free. Else
/// 1 plus the logarithm of the longest run, which counts as 16 at most. So a segment listed under
/// bin k serves any request of up to 2^k slots, and the fullest segments are those with the
/// shortest runs.
const fn listed_as(free: u32) -> u8 {
    let mut bin = 0;
    while bin < BINS as u8 && slots::has_run(free, 1 << bin) {
        bin += 1;
    }
    bin
}

/// Lists a segment under the bin of its free slots (rule 2).
#[unsafe(link_section = ".text.hot.hakmem")]
fn rebin(arena: &Arena, segment: usize) {
    let meta = head_of(arena, segment).segment();
    meta.bin.settle(
        || listed_as(meta.slots.free_now()),
        |bin| arena.list(usize::from(bin) - 1, segment),
        |bin| arena.unlist(usize::from(bin) - 1, segment),
    );
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests;
