//! Segments shared by all classes and threads: pages are claimed from the fullest one that has room.
//!
//! Filling the fullest first lets the others become empty, so that they can be given back whole and stay dense
//! enough for huge pages. Segments with free slots are listed in bitmaps by their longest free run; the lists are hints,
//! the slot word of the segment decides.
//!
//! Rules
//! 1. Slots follow `proto::slots`.
//! 2. After every change of a segment's slots `rebin` runs; it ends only when the bin it listed is that of the
//!    slots as they are then. So a segment with free slots is listed once everybody who changed it is through.
//! 3. A segment that is wholly free and clean is retired (all its slots taken) before it goes back to the arena.

use crate::backend::arena::{self, Arena, BINS, DIRTY_ROW, SEGMENT, SLOT};
use crate::backend::page::{Meta, NOT_THP, THP, UNTOLD};
use crate::base::sync::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use crate::os;
use crate::policy::{self, Thp};
use crate::proto::slots::{self, SLOTS, run};

/// Segments of a bin that are looked at in vain before the next bin is.
const TRIES: usize = 16;
const PER_SEGMENT: usize = SEGMENT / SLOT;

#[unsafe(link_section = ".data.hakmem")]
pub static DIRTY: AtomicUsize = AtomicUsize::new(0);
/// Segments that pages and large blocks have.
#[unsafe(link_section = ".data.hakmem")]
static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of carved small blocks, as far as heaps have told.
#[unsafe(link_section = ".data.hakmem")]
static CARVED: AtomicI64 = AtomicI64::new(0);
/// Slots that are pages of small blocks.
#[unsafe(link_section = ".data.hakmem")]
static SMALL: AtomicUsize = AtomicUsize::new(0);

/// Segments that were refused huge pages and did not ask for them before. Each is a map of its own among its neighbours,
/// and a process may not have any number of maps.
#[unsafe(link_section = ".data.hakmem")]
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// The most that are refused them: 16 GiB, and a quarter of the maps that Linux gives a process.
const MOST_REFUSED: usize = 8192;

/// Bytes in DIRTY slots: free, but not given back.
pub fn dirty_bytes() -> usize {
    DIRTY.load(Relaxed)
}

/// Claims `n` neighbouring slots. Returns the first one's metadata and whether their memory is zero. None: out of
/// memory. Lock-free unless a fresh segment is needed; O(groups in use / 64).
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn claim(n: u32) -> Option<(&'static Meta, bool)> {
    arena::all().find_map(|arena| claim_in(arena, n)).or_else(|| claim_fresh(n)).or_else(|| claim_scrap(n))
}

/// The last of the address space: slots of what is no whole segment. The others of its segments stay taken, so these never go
/// back to the arena.
#[cold]
fn claim_scrap(n: u32) -> Option<(&'static Meta, bool)> {
    let (arena, first, end) = arena::take_scrap(n as usize)?;
    for segment in 0..end.div_ceil(PER_SEGMENT) {
        let (from, to) = (segment * PER_SEGMENT, (segment + 1) * PER_SEGMENT);
        let meta = head_of(arena, segment).segment();
        meta.slots.retire();
        // The kernel is told nothing of what may be another's.
        meta.thp.store(NOT_THP, Relaxed);
        IN_USE.fetch_add(1, Relaxed);
        let (first, end) = (first.max(from) - from, end.min(to) - from);
        if first < end {
            // SAFETY: all slots are ours, and these are not kept.
            unsafe { meta.slots.release(run(first as u32, (end - first) as u32), false) };
            rebin(arena, segment);
        }
    }
    claim_in(arena, n)
}

#[inline(always)]
fn claim_in(arena: &'static Arena, n: u32) -> Option<(&'static Meta, bool)> {
    for bin in n.ilog2() as usize..BINS {
        // In the first bin a segment may have too short a run, in the others only by a race.
        for segment in arena.listed(bin).take(TRIES) {
            let head = head_of(arena, segment);
            let meta = head.segment();
            if let Some(claim) = meta.slots.claim(n) {
                DIRTY.fetch_sub(claim.dirty as usize * SLOT, Relaxed);
                if meta.bin.get() != listed_as(claim.free) {
                    rebin(arena, segment);
                }
                // SAFETY: `claim` gives numbers of slots of this segment.
                return Some((unsafe { head.forward(claim.first) }, claim.clean));
            }
            if usize::from(meta.bin.get()) != bin + 1 {
                // Left behind by two who rebinned at once.
                arena.unlist(bin, segment);
                rebin(arena, segment);
            }
        }
    }
    None
}

fn claim_fresh(n: u32) -> Option<(&'static Meta, bool)> {
    let (arena, segment) = arena::take_run(1, 1, 1)?;
    let head = head_of(arena, segment);
    // A segment that was never used has no slot taken; one that was is retired (rule 3). Either way they are ours.
    head.segment().slots.retire();
    IN_USE.fetch_add(1, Relaxed);
    choose_thp(head, n);
    if n < SLOTS {
        // SAFETY: all slots are ours, and these are not kept.
        unsafe { head.segment().slots.release(run(n, SLOTS - n), false) };
    }
    rebin(arena, segment);
    Some((head, true))
}

/// Huge pages for a fresh segment that is for small blocks, once enough segments' worth of these is in use, they are most
/// of what is, and their pages are filled: large blocks need not be written everywhere, and of many threads' little-used
/// pages only the beginning is touched; then a huge page is mostly waste.
fn choose_thp(head: &Meta, n: u32) {
    let from = policy::THP_FROM_SEGMENTS.get() as usize;
    let choice = Thp::now();
    let small = SMALL.load(Relaxed) / SLOTS as usize;
    let most = |part: usize, whole: usize| part * 4 >= whole * 3;
    let carved = CARVED.load(Relaxed).max(0) as usize;
    let filled = || n == 1 && small >= from && most(small, IN_USE.load(Relaxed)) && most(carved, small * SEGMENT);
    let wanted = choice == Thp::Always || choice == Thp::Auto && filled();
    let told = &head.segment().thp;
    let start = head.start().addr();
    if wanted && os::want_thp(start, SEGMENT) {
        told.store(THP, Relaxed);
    }
}

/// Refuses huge pages in the segment of `page`, of which a part was given back: or the kernel would fill that again, by its own
/// choice too. A huge page is resident as a whole, so the CLEAN slots are given back as well.
pub fn refuse_thp(page: &Meta) {
    let meta = page.segment();
    let told = meta.thp.load(Relaxed);
    if told == NOT_THP || told == UNTOLD && REFUSED.load(Relaxed) >= MOST_REFUSED {
        return;
    }
    if meta.thp.swap(NOT_THP, Relaxed) == NOT_THP {
        return;
    }
    REFUSED.fetch_add(1, Relaxed);
    let (arena, segment) = page.segment_in_arena();
    let head = head_of(arena, segment);
    os::refuse_thp(head.start().addr(), SEGMENT);
    let mask = meta.slots.claim_unused();
    if mask != 0 {
        give_back(head, mask);
        // SAFETY: just claimed. What was not given back is as it was: zero.
        unsafe { meta.slots.release(mask, false) };
        rebin(arena, segment);
    }
}

/// Gives the slots of `mask`, which are the caller's, back to the system, neighbours by one call. Returns the mask of those
/// for which it worked.
fn give_back(head: &Meta, mask: u32) -> u32 {
    let (mut rest, mut given) = (mask, 0);
    while rest != 0 {
        let first = rest.trailing_zeros();
        let n = (rest >> first).trailing_ones();
        let piece = run(first, n);
        rest &= !piece;
        // SAFETY: `mask` has a bit for each slot of the segment.
        let start = unsafe { head.forward(first) }.start();
        if os::purge(start.addr(), n as usize * SLOT) {
            given |= piece;
        }
    }
    given
}

/// Counts bytes of carved small blocks, in steps that a heap chooses.
pub fn note_carved(change: i64) {
    CARVED.fetch_add(change, Relaxed);
}

/// Counts slots that are taken for pages of small blocks, or given up.
pub fn note_small(change: isize) {
    SMALL.fetch_add(change as usize, Relaxed);
}

/// Claims the `more` slots behind the `n` at `first`, if they are free.
pub fn extend(first: &Meta, n: u32, more: u32) -> bool {
    if first.slot() + n + more > SLOTS {
        return false;
    }
    let Some(claim) = first.segment().slots.claim_exact(run(first.slot() + n, more)) else { return false };
    DIRTY.fetch_sub(claim.dirty as usize * SLOT, Relaxed);
    let (arena, segment) = first.segment_in_arena();
    rebin(arena, segment);
    true
}

/// Lets `n` slots from `first` go; their memory is dirty. Lock-free, O(1).
///
/// # Safety
/// The caller owns them, their metadata says `Kind::Free`, and nobody will touch them on its behalf.
pub unsafe fn release(first: &Meta, n: u32) {
    let (arena, segment) = first.segment_in_arena();
    let meta = first.segment();
    meta.stamp.store(os::now_ms(), Relaxed);
    DIRTY.fetch_add(n as usize * SLOT, Relaxed);
    // SAFETY: passed on.
    let free = unsafe { meta.slots.release(run(first.slot(), n), true) };
    arena.list(DIRTY_ROW, segment);
    if meta.bin.get() != listed_as(free) {
        rebin(arena, segment);
    }
}

/// Gives the DIRTY slots of a segment back to the system if the last came `decay` ms or more before `now`. Returns
/// the bytes given back. A segment that is wholly free after that goes back to the arena.
pub fn purge(arena: &'static Arena, segment: usize, now: u32, decay: u32) -> usize {
    let head = head_of(arena, segment);
    let meta = head.segment();
    if os::age(now, meta.stamp.load(Relaxed)) < decay {
        return 0;
    }
    arena.unlist(DIRTY_ROW, segment);
    let mask = meta.slots.claim_empty();
    let clean = give_back(head, mask);
    let (kept, given) = (mask & !clean, clean.count_ones() as usize * SLOT);
    DIRTY.fetch_sub(given, Relaxed);
    // SAFETY: claimed above; the two masks are what was claimed.
    unsafe {
        meta.slots.release(clean, false);
        if kept != 0 {
            // Locked memory, or no room for another map: tried again after another decay.
            meta.slots.release(kept, true);
            meta.stamp.store(now, Relaxed);
            arena.list(DIRTY_ROW, segment);
        }
    }
    if meta.slots.retire() {
        if let Some(bin) = usize::from(meta.bin.clear()).checked_sub(1) {
            arena.unlist(bin, segment);
        }
        IN_USE.fetch_sub(1, Relaxed);
        forget_advice((arena, segment));
        // SAFETY: the segment is retired: wholly ours, and clean.
        unsafe { arena::give_run((arena, segment), 1) };
    } else {
        rebin(arena, segment);
        if given > 0 {
            refuse_thp(head);
        }
    }
    given
}

/// A segment that is wholly the caller's becomes as it was reserved, if the kernel was told something of it: whoever has it next
/// shall have what the system gives, and it joins its neighbours again.
fn forget_advice(run: arena::Run) {
    let told = head_of(run.0, run.1).segment().thp.swap(UNTOLD, Relaxed);
    if told == NOT_THP {
        REFUSED.fetch_sub(1, Relaxed);
    }
    if told != UNTOLD {
        arena::decommit_run(run, 1);
    }
}

fn head_of(arena: &Arena, segment: usize) -> &'static Meta {
    // SAFETY: metadata of used segments is accessible for ever; all its fields may be shared.
    unsafe { &*arena.meta(segment * PER_SEGMENT).cast::<Meta>() }
}

/// What a segment's `bin` field says when the slots of `free` are free: 0 for none, else 1 and the logarithm of the
/// longest run among them, 16 at most. So a segment listed under bin k serves any request of up to 2^k slots, and the
/// fullest are those with the shortest runs.
const fn listed_as(free: u32) -> u8 {
    let mut bin = 0;
    while bin < BINS as u8 && slots::has_run(free, 1 << bin) {
        bin += 1;
    }
    bin
}

/// Lists a segment under its bin (rule 2).
#[unsafe(link_section = ".text.hot.hakmem")]
fn rebin(arena: &Arena, segment: usize) {
    let meta = head_of(arena, segment).segment();
    meta.bin.settle(
        || listed_as(meta.slots.free_now()),
        |bin| arena.list(usize::from(bin) - 1, segment),
        |bin| arena.unlist(usize::from(bin) - 1, segment),
    );
}
