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

use crate::backend::arena::{self, Arena, BINS, DIRTY_ROW, SEGMENT, SLOT};
use crate::backend::held;
use crate::backend::page::{Meta, NOT_THP, THP, TRIED, UNTOLD};
use crate::backend::tried;
use crate::base::counter::Counter;
use crate::base::sync::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use crate::os;
use crate::policy::{self, Thp};
use crate::proto::slots::{self, Claim, SLOTS, run};
use core::cell::Cell;
use crossbeam_utils::CachePadded;

/// Segments of a bin that a claim tries in vain before it goes to the next bin.
const TRIES: usize = 16;
const PER_SEGMENT: usize = SEGMENT / SLOT;
/// The slots of a page of medium blocks.
const PAGE_SLOTS: u32 = 8;

/// What claims and releases of all threads write. It has a line of memory of its own: a thread that
/// reads a word beside it would wait for each of them.
#[repr(C)]
pub struct Totals {
    /// Bytes in DIRTY slots.
    dirty: AtomicUsize,
    /// Segments that are claimed for pages and large blocks.
    in_use: AtomicUsize,
    /// Bytes of carved small blocks, as far as heaps have reported them.
    carved: AtomicI64,
    /// Slots that are pages of small blocks.
    small: AtomicUsize,
}

/// The note of `stats::view` names its first word, the dirty bytes.
#[unsafe(link_section = ".data.hakmem")]
pub static TOTALS: CachePadded<Totals> = CachePadded::new(Totals {
    dirty: AtomicUsize::new(0),
    in_use: AtomicUsize::new(0),
    carved: AtomicI64::new(0),
    small: AtomicUsize::new(0),
});

/// Segments that were refused huge pages and had not asked for them before. Each makes a map of its
/// own among its neighbours, and the system limits the number of maps of a process.
#[unsafe(link_section = ".data.hakmem")]
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// The most segments that are refused huge pages: 16 GiB, and a quarter of the maps that Linux
/// allows a process.
const MOST_REFUSED: usize = 8192;

/// Bytes in DIRTY slots: free, but not given back to the system. Below zero while heaps have not
/// told of what they freed yet.
#[inline(always)]
pub fn signed_dirty_bytes() -> isize {
    TOTALS.dirty.load(Relaxed).cast_signed()
}

/// [`signed_dirty_bytes`], but not below zero.
#[cfg(test)]
pub fn dirty_bytes() -> usize {
    signed_dirty_bytes().max(0).cast_unsigned()
}

/// The segment that a heap claims from first, in a program of many heaps. If all took slots of the
/// fullest segment, each claim would wait for that segment's line of memory. All zero bytes: the
/// heap has no home, and takes none.
pub struct Home {
    head: Cell<*const Meta>,
    /// The heap's number among those with a home. 0: it has none.
    number: Cell<u32>,
    /// The change of the dirty slots that `TOTALS` does not have yet. Only heaps with a home let
    /// changes wait.
    dirty: Counter<i64>,
    /// The same for slots that are pages of small blocks.
    small: Counter<i64>,
}

/// A heap with a home tells `TOTALS` of its slots in steps of so many.
const STEP: u64 = 16;

/// Heaps begin to search at so many different segments.
const SPREAD: u32 = 16;

impl Home {
    /// From now on the heap has a home. `number` is above 0, and others have other numbers.
    pub fn begin(&self, number: u32) {
        self.number.set(number);
    }

    /// [`release`] for the holder of the heap. True: `TOTALS` knows of these slots, so there may be
    /// work for a purge.
    ///
    /// # Safety
    /// As [`release`].
    #[inline(never)]
    pub unsafe fn release(&self, first: &Meta, n: u32) -> bool {
        // SAFETY: the caller owns the slots and gives them up, and their metadata says
        // `Kind::Free`: `release_as` asks for the same. The heap is the caller's, so its home is
        // too.
        unsafe { release_as(first, n, Some(self)) }
    }

    /// [`note_small`] for the holder of the heap.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn note_small(&self, change: i32) {
        if self.number.get() == 0 {
            return note_small(change as isize);
        }
        self.small.add(change.into());
        if self.small.get().unsigned_abs() >= STEP {
            self.tell();
        }
    }

    /// True: `TOTALS` knows of it.
    #[inline]
    fn note_dirty(&self, change: i32) -> bool {
        self.dirty.add(change.into());
        let tells = self.dirty.get().unsigned_abs() >= STEP;
        if tells {
            self.tell();
        }
        tells
    }

    /// Tells `TOTALS` of all changes. The holder calls this.
    #[cold]
    pub fn tell(&self) {
        let (dirty, small) = (self.dirty.get(), self.small.get());
        self.dirty.set(0);
        self.small.set(0);
        if dirty != 0 {
            TOTALS.dirty.fetch_add((dirty as isize * SLOT as isize) as usize, Relaxed);
        }
        if small != 0 {
            note_small(small as isize);
        }
    }

    /// Bytes in dirty slots that `TOTALS` does not know of yet. Any thread may call this.
    pub fn untold_dirty_bytes(&self) -> i64 {
        self.dirty.get() * SLOT as i64
    }

    /// Claims slots of the home. None: there is none, or it has no room.
    fn claim(&self, n: u32) -> Option<(&'static Meta, bool)> {
        // SAFETY: null, or the metadata of a segment, which is accessible for ever (`arena` rule
        // 4).
        let head = unsafe { self.head.get().as_ref() }?;
        let (arena, segment) = head.segment_in_arena();
        claim_from(arena, segment, n, |dirty| _ = self.note_dirty(-dirty))
    }

    /// Claims from a segment with a long free run, which becomes the home.
    fn claim_another(&self, n: u32) -> Option<(&'static Meta, bool)> {
        let skip = (self.number.get() % SPREAD) as usize;
        let taken = |dirty: i32| _ = self.note_dirty(-dirty);
        let in_bin = |arena: &'static Arena, bin| {
            let mut listed = arena.listed(bin).skip(skip).take(TRIES);
            listed.find_map(|segment| claim_from(arena, segment, n, taken))
        };
        let bins = n.ilog2() as usize..BINS;
        let found = bins.rev().find_map(|bin| arena::all().find_map(|arena| in_bin(arena, bin)));
        let (meta, zero) = found.or_else(|| claim_somewhere(n, taken))?;
        let (arena, segment) = meta.segment_in_arena();
        self.head.set(head_of(arena, segment));
        Some((meta, zero))
    }
}

/// Claims `n` neighbouring slots. Returns the first one's metadata, and whether their memory is
/// zero. None: out of memory. Lock-free unless it needs a fresh segment; O(groups in use / 64).
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn claim(n: u32, home: &Home) -> Option<(&'static Meta, bool)> {
    if home.number.get() == 0 {
        return claim_anywhere(n);
    }
    home.claim(n).or_else(|| home.claim_another(n))
}

/// [`claim`] for a caller without a heap.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn claim_anywhere(n: u32) -> Option<(&'static Meta, bool)> {
    claim_somewhere(n, taken_dirty)
}

/// [`claim_anywhere`], which calls `taken` with the number of dirty slots that it claimed.
#[inline(always)]
fn claim_somewhere(n: u32, taken: impl Fn(i32) + Copy) -> Option<(&'static Meta, bool)> {
    let listed = arena::all().find_map(|arena| claim_in(arena, n, taken));
    listed.or_else(|| claim_fresh(n)).or_else(|| claim_scrap(n))
}

/// Claims all slots of a segment. Returns the first one's metadata. None: out of memory.
pub fn claim_whole() -> Option<&'static Meta> {
    let of = |arena: &'static Arena| {
        let mut listed = arena.listed(BINS - 1).take(TRIES);
        listed.find_map(|segment| claim_from(arena, segment, SLOTS, taken_dirty))
    };
    arena::all().find_map(of).or_else(|| claim_fresh(SLOTS)).map(|(meta, _)| meta)
}

/// Claims from the last of the address space: slots of a scrap, which has no whole segment. The
/// other slots of its segments stay claimed, so these segments never go back to the arena.
#[cold]
fn claim_scrap(n: u32) -> Option<(&'static Meta, bool)> {
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
    claim_in(arena, n, taken_dirty)
}

#[inline(always)]
fn claim_in(
    arena: &'static Arena,
    n: u32,
    taken: impl Fn(i32) + Copy,
) -> Option<(&'static Meta, bool)> {
    for bin in n.ilog2() as usize..BINS {
        // In the first bin a segment may have too short a run; in the others only by a race.
        for segment in arena.listed(bin).take(TRIES) {
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

#[unsafe(link_section = ".text.hot.hakmem")]
fn claim_fresh(n: u32) -> Option<(&'static Meta, bool)> {
    let bytes = n as usize * SLOT;
    if !held::take(bytes) {
        return None;
    }
    let Some((arena, segment)) = arena::take_segment() else {
        held::give(bytes);
        return None;
    };
    let head = head_of(arena, segment);
    // This thread owns all slots of the run. A segment that was never used has no slot claimed, and
    // one that was used is retired (rule 3).
    head.segment().slots.retire();
    TOTALS.in_use.fetch_add(1, Relaxed);
    choose_thp(head, n);
    if n < SLOTS {
        // SAFETY: this thread owns all slots of the fresh segment. It keeps the first `n`, and lets
        // go of the others.
        unsafe { head.segment().slots.release(run(n, SLOTS - n), false) };
    }
    rebin(arena, segment);
    Some((head, true))
}

/// Asks for huge pages for a fresh segment, if that pays. Of many threads' little-used pages,
/// programs touch only the beginning: so half of the bytes of pages must be carved. If pages are
/// half of what is in use, too, and enough segments' worth of them, a segment for a page asks.
/// Programs need not write all of a large block. So any other segment asks only if pages are a
/// quarter of what is in use, and up to a bound (`tried`).
fn choose_thp(head: &Meta, n: u32) {
    let from = policy::THP_FROM_SEGMENTS.get() as usize;
    let choice = Thp::now();
    let small = small_segments();
    let carved = TOTALS.carved.load(Relaxed).max(0) as usize;
    let in_use = TOTALS.in_use.load(Relaxed);
    let is_page = n == 1 || n == PAGE_SLOTS;
    let half = |part: usize, whole: usize| part * 2 >= whole;
    let asks = choice == Thp::Auto && half(carved, small * SEGMENT);
    let is_filled = is_page && small >= from && half(small, in_use);
    let tries =
        asks && !is_filled && in_use > from + 1 && small * 4 >= in_use && tried::has_room(1);
    let wanted = choice == Thp::Always || asks && is_filled || tries;
    let told = &head.segment().thp;
    if wanted && os::want_thp(head.start().addr(), SEGMENT) {
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
    if told == NOT_THP || told == UNTOLD && REFUSED.load(Relaxed) >= MOST_REFUSED {
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

/// Gives the slots of `mask`, which the caller owns, back to the system, neighbours by one call.
/// Returns the mask of the slots that the system took.
fn give_back(head: &Meta, mask: u32) -> u32 {
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

/// Adds `change` to the bytes of carved small blocks. Heaps call it in steps that they choose.
pub fn note_carved(change: i64) {
    TOTALS.carved.fetch_add(change, Relaxed);
}

/// As many segments as the pages of small blocks fill. The total is below zero while a heap has
/// told of pages that it gave up, and not yet of as many that it claimed.
fn small_segments() -> usize {
    TOTALS.small.load(Relaxed).cast_signed().max(0).cast_unsigned() / SLOTS as usize
}

/// Segments with slots in use.
pub fn in_use() -> usize {
    TOTALS.in_use.load(Relaxed)
}

/// Adds `change` to the slots that are pages of small blocks.
pub fn note_small(change: isize) {
    TOTALS.small.fetch_add(change as usize, Relaxed);
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

/// Gives the DIRTY slots of a segment back to the system, if the last one became DIRTY at least
/// `decay` ms before `now`. Returns the bytes given back. If the segment is then wholly free, it
/// goes back to the arena.
pub fn purge(arena: &'static Arena, segment: usize, now: u32, decay: u32) -> usize {
    let head = head_of(arena, segment);
    let meta = head.segment();
    if os::age(now, meta.stamp.load(Relaxed)) < decay {
        return 0;
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
    given
}

/// Takes back what hakmem told the kernel about a segment, if anything: maps it afresh. The segment
/// is wholly the caller's. The next one to take it then gets what the system gives, and the map
/// joins its neighbours' again.
///
/// # Safety
/// The caller owns all of the segment, and nobody uses what is in it any more.
unsafe fn forget_advice(run: arena::Run) {
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
mod tests {
    use super::*;
    use crate::testing::in_child;

    /// Heaps tell of their pages in steps, so one that gives up many may be the first to tell.
    #[test]
    fn a_total_below_zero_is_taken_for_none() {
        in_child(|| {
            note_small(-1_000_000);
            assert_eq!(small_segments(), 0);
            // It asks what the total is.
            let claimed = claim_fresh(1);
            assert!(claimed.is_some());
        });
    }
}
