//! The arena: one large reserved range of address space, and the arithmetic from a pointer to its metadata.
//!
//! ```text
//! reserved:  | guard | summary, groups | metadata, 128 bytes a page | guard … align 2 MiB … |
//!            | data: segments of 2 MiB, pages of 64 KiB | guard |
//! ```
//!
//! Page `i` of the data has its metadata at `metas + 128 i`; 32 pages make a segment, so a segment's metadata is one
//! aligned 4 KiB piece, faulted in and committed with it. A *group* is a line of bitmaps for 64 segments. Further
//! arenas are chained when one is full, or when the first had to be small (RLIMIT_AS, valgrind).
//!
//! Rules
//! 1. `HOT` describes the first arena: see `proto::bounds`. What it lets in is ours; for what it does not, `find` has the
//!    last word. Its limit is lowered when the arena's tail is given up (`space`).
//! 2. A segment belongs to whoever `take_run` gave it to, until `give_run`. What is used, what is committed, `top` and the
//!    hints change under the lock only. A segment becomes committed, or not any more, by its owner alone, who lets go of the
//!    lock while the system is asked: it is said to be committed only while it is.
//! 3. A segment in nobody's hands is clean: not resident, zero; and the kernel was told nothing of it but what `THP` says of
//!    all. Where it cannot be made so (no room for another map), it may have huge pages or none: that costs no more than time.
//! 4. Metadata is readable for ever from the moment its arena is known, used or not; but not that of a tail that was
//!    given up, if its groups were never in use.
//! 5. A scrap is never the arena of `HOT`, which knows nothing of pages that are not the arena's: who frees a pointer into these is
//!    told by `find` that it is foreign.
//! 6. Guards are never accessible: who writes beyond a block, or beyond what the kernel mapped beside an arena, meets no
//!    metadata.
//! 7. Addresses become pointers in `os::at` and nowhere else in the crate.

mod bits;
mod run;
mod space;
// They ask the kernel what is mapped, of more than Miri has memory for, and models have threads of their own.
#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests;

use crate::base::sync::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use crate::os;
pub use crate::os::at;
use crate::policy;
use crate::proto::bounds::Bounds;
use crate::proto::hints;
use crate::proto::lock::Lock;
#[cfg_attr(any(miri, shuttle), allow(unused_imports, reason = "for the note, which these have not"))]
pub use bits::FULL_ROW;
use bits::{SET_ROWS, Set};
use core::ptr::null_mut;
pub use run::{Run, commit_run, decommit_idle, decommit_run, extend_run, give_run, take_run};
pub use space::{LARGEST, fit_limit, give_tails_up, give_up, take_scrap};
use space::{Reservation, reserve_some};

/// log2 of the page size in bytes.
pub const SLOT_SHIFT: u32 = 16;
/// A page: 64 KiB.
pub const SLOT: usize = 1 << SLOT_SHIFT;
/// A segment: 2 MiB.
pub const SEGMENT: usize = 2 << 20;
/// Bytes of a guard: no machine has larger pages.
const GUARD: usize = SLOT;
/// Bytes of metadata for a page.
pub const META: usize = 128;
/// Bytes of metadata for a segment.
pub const SEGMENT_META: usize = SEGMENT / SLOT * META;
/// Segments in a group.
pub const GROUP: usize = 64;
/// Bins that segments with free pages are kept apart by: their longest run of free pages is 1, 2–3, 4–7, 8–15 or more.
pub const BINS: usize = 5;
/// Rows of hints kept for segments: a row for each bin, and one for those with DIRTY pages.
pub const ROWS: usize = BINS + 1;
/// The row of segments with DIRTY pages.
pub const DIRTY_ROW: usize = BINS;

const MAX_ARENAS: usize = 64;

/// Bitmaps for 64 segments; bit i speaks of the group's ith. Those of what is used and what is committed are half of what is to
/// be known: see `bits`.
#[repr(C, align(64))]
pub struct Group {
    pub used: AtomicU64,
    committed: AtomicU64,
    /// Hints of the segment layer, found through the arena's summary.
    rows: [AtomicU64; ROWS],
}

/// The first arena, for the fast path.
pub static HOT: Bounds = Bounds::new();

/// A reserved range.
pub struct Arena {
    pub data: AtomicUsize,
    /// Segments that were reserved: the layout follows from it.
    pub reserved: AtomicUsize,
    /// Segments that there are. Only shrinks: see `space`.
    pub segments: AtomicUsize,
    /// Segments whose metadata is there: those, and all of the groups in use.
    known: AtomicUsize,
    pub groups: AtomicPtr<Group>,
    /// For each row, a bit for each group that has a bit set in it; behind them the rows of `bits`.
    pub summary: AtomicPtr<AtomicU64>,
    pub metas: AtomicPtr<u8>,
    /// Groups below this one are in use: their page metadata is accessible. Only grows.
    pub top: AtomicUsize,
    /// The first page that is the arena's, 0 but for a scrap (`space`).
    from: AtomicUsize,
    /// Pages at the end of the last segment that are not, 0 but for a scrap.
    cut: AtomicUsize,
    /// Where searches begin.
    hints: [Hint; HINTS],
}

/// No `len` unused segments side by side begin below `from`: so the next search for as many, or more, begins there. One for each
/// power of two that a search's length lies above. In the child of a fork the two may be of different searches: that
/// loses address space, at worst.
struct Hint {
    len: AtomicUsize,
    from: AtomicUsize,
}
const HINTS: usize = 8;

impl Hint {
    /// Says nothing. All zero bytes, so that the table of arenas takes no room in the file.
    const fn new() -> Self {
        Self { len: AtomicUsize::new(0), from: AtomicUsize::new(0) }
    }
}

pub static ARENAS: [Arena; MAX_ARENAS] = [const {
    Arena {
        data: AtomicUsize::new(0),
        reserved: AtomicUsize::new(0),
        segments: AtomicUsize::new(0),
        known: AtomicUsize::new(0),
        groups: AtomicPtr::new(null_mut()),
        summary: AtomicPtr::new(null_mut()),
        metas: AtomicPtr::new(null_mut()),
        top: AtomicUsize::new(0),
        from: AtomicUsize::new(0),
        cut: AtomicUsize::new(0),
        hints: [const { Hint::new() }; HINTS],
    }
}; MAX_ARENAS];
#[unsafe(link_section = ".data.hakmem")]
pub static COUNT: AtomicU8 = AtomicU8::new(0);
/// Held over every change of rule 2.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
#[unsafe(link_section = ".data.hakmem")]
pub static RESERVED: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data.hakmem")]
pub static COMMITTED: AtomicUsize = AtomicUsize::new(0);

/// Bytes reserved and bytes made accessible, over all arenas.
pub fn totals() -> (usize, usize) {
    (RESERVED.load(Relaxed), COMMITTED.load(Relaxed))
}

/// Every arena, oldest first.
pub fn all() -> impl Iterator<Item = &'static Arena> {
    // Acquire: the fields of an arena were written before it was counted.
    ARENAS[..usize::from(COUNT.load(Acquire))].iter()
}

/// The arena and the page number of the page that `address` lies in; None for foreign addresses. O(arenas).
pub fn find(address: usize) -> Option<(&'static Arena, usize)> {
    all().find_map(|arena| {
        let offset = address.wrapping_sub(arena.data.load(Relaxed));
        let page = offset >> SLOT_SHIFT;
        let end = arena.segments.load(Relaxed) * (SEGMENT / SLOT) - arena.cut.load(Relaxed);
        (arena.from.load(Relaxed)..end).contains(&page).then_some((arena, page))
    })
}

/// Whether an address lies in the bitmaps and the metadata of an arena. O(arenas).
pub fn in_books(address: usize) -> bool {
    all().any(|arena| arena.has_in_books(address))
}

/// The address of the page that a piece of metadata is about.
#[inline]
pub fn start_of(meta: usize) -> usize {
    let offset = meta.wrapping_sub(HOT.metas().addr());
    if offset >> META.ilog2() < HOT.limit() >> SLOT_SHIFT {
        return HOT.data() + (offset << (SLOT_SHIFT - META.ilog2()));
    }
    let (arena, page) = of_meta(meta);
    arena.slot_address(page)
}

/// The arena that a piece of metadata belongs to, and its page number.
pub fn of_meta(meta: usize) -> (&'static Arena, usize) {
    find_meta(meta).unwrap_or_else(|| os::abort())
}

fn find_meta(meta: usize) -> Option<(&'static Arena, usize)> {
    all().find_map(|arena| {
        let offset = meta.wrapping_sub(arena.metas.load(Relaxed).addr());
        (offset / SEGMENT_META < arena.known.load(Relaxed)).then_some((arena, offset / META))
    })
}

/// Whether a piece of metadata lies there. O(arenas).
pub fn is_meta(address: usize) -> bool {
    address.is_multiple_of(META) && find_meta(address).is_some()
}

impl Arena {
    /// Address of page `page`.
    #[inline]
    pub fn slot_address(&self, page: usize) -> usize {
        self.data.load(Relaxed) + (page << SLOT_SHIFT)
    }

    /// Metadata of page `page`.
    #[inline]
    pub fn meta(&self, page: usize) -> *mut u8 {
        self.metas.load(Relaxed).wrapping_add(page * META)
    }

    /// What lies behind the metadata that is known may be anybody's: a tail that was given up.
    fn has_in_books(&self, address: usize) -> bool {
        let (books, metas) = (self.summary.load(Relaxed).addr(), self.metas.load(Relaxed).addr());
        (books..metas + self.known.load(Relaxed) * SEGMENT_META).contains(&address)
    }

    /// The groups that are in use.
    fn groups(&self) -> &'static [Group] {
        // Acquire: the groups were made accessible before `top` counted them. SAFETY: they are for ever, and hold
        // nothing but atomics.
        unsafe { core::slice::from_raw_parts(self.groups.load(Relaxed), self.top.load(Acquire)) }
    }

    /// The group of segment `segment` and its bit there.
    fn group_of(&self, segment: usize) -> (&'static Group, u64) {
        (&self.groups()[segment / GROUP], 1 << (segment % GROUP))
    }

    /// The summary's word for group `group` in `row`, and its bit there.
    fn summary(&self, row: usize, group: usize) -> (&'static AtomicU64, u64) {
        let words = summary_words(self.reserved.load(Relaxed));
        let at = self.summary.load(Relaxed).wrapping_add(row * words + group / 64);
        // SAFETY: inside the summary, which was made accessible with the first group, and is for ever.
        (unsafe { &*at }, 1 << (group % 64))
    }

    /// Lists a segment in `row`.
    pub fn list(&self, row: usize, segment: usize) {
        let (group, bit) = self.group_of(segment);
        let (summary, its) = self.summary(row, segment / GROUP);
        hints::list(&group.rows[row], bit, summary, its);
    }

    /// Takes a segment out of `row`.
    pub fn unlist(&self, row: usize, segment: usize) {
        let (group, bit) = self.group_of(segment);
        hints::unlist(&group.rows[row], bit);
    }

    /// The segments listed in `row` a moment ago, lowest first. O(groups in use / 64 + segments listed).
    pub fn listed(&'static self, row: usize) -> impl Iterator<Item = usize> {
        let groups = self.groups();
        (0..groups.len()).step_by(64).flat_map(move |base| {
            let word = self.summary(row, base).0.load(SeqCst);
            bits(word).flat_map(move |g| bits(self.row_of(row, base + g)).map(move |s| (base + g) * GROUP + s))
        })
    }

    /// The segments in use a moment ago, lowest first. O(groups in use + those).
    pub fn used(&'static self) -> impl Iterator<Item = usize> {
        let used = self.bits(Set::Used);
        let mut next = 0;
        core::iter::from_fn(move || {
            let found = used.first_in(next, used.end())?;
            next = found + 1;
            Some(found)
        })
    }

    /// A group's bits in `row`.
    fn row_of(&self, row: usize, group: usize) -> u64 {
        let Some(g) = self.groups().get(group) else { return 0 };
        let (summary, its) = self.summary(row, group);
        hints::in_row(&g.rows[row], summary, its)
    }

    fn reserve(&self, wanted: usize) -> bool {
        let Some(Reservation { mut base, mut len, segments, is_scarce }) = reserve_some(wanted) else { return false };
        let groups = segments.div_ceil(GROUP);
        // The summary and the first groups share a page of memory.
        let first_group = summary_bytes(segments).next_multiple_of(align_of::<Group>());
        let front = (first_group + groups * size_of::<Group>()).next_multiple_of(SLOT);
        let metadata = (segments * SEGMENT_META).next_multiple_of(SLOT);
        let data = (base + GUARD + front + metadata + GUARD).next_multiple_of(SEGMENT);
        let metas = data - GUARD - metadata;
        let start = metas - front;
        // What is in front of the first guard, and behind the last, was reserved for the alignment.
        if is_scarce {
            let (first, end) = (start - GUARD, data + segments * SEGMENT + GUARD);
            for (from, to) in [(base, first), (end, base + len)].into_iter().filter(|(from, to)| from < to) {
                give_up(from, to - from);
            }
            (base, len) = (first, end - first);
        }
        // The metadata of pages never used reads as zero: `Kind::Free`, no owner.
        if !os::make_readable(metas, segments * SEGMENT_META) {
            give_up(base, len);
            return false;
        }
        self.summary.store(at(start).cast(), Relaxed);
        self.groups.store(at(start + first_group).cast(), Relaxed);
        self.metas.store(at(metas), Relaxed);
        self.data.store(data, Relaxed);
        self.reserved.store(segments, Relaxed);
        self.segments.store(segments, Relaxed);
        self.known.store(segments, Relaxed);
        true
    }

    /// Brings the first `wanted` groups into use. Under the lock.
    fn make_ready(&self, wanted: usize) -> bool {
        let top = self.top.load(Relaxed);
        if wanted <= top {
            return true;
        }
        let metas = self.metas.load(Relaxed).addr();
        // The bitmaps lie in front of the metadata and come with its first piece.
        let from = if top == 0 { self.summary.load(Relaxed).addr() } else { metas + top * GROUP * SEGMENT_META };
        let to = metas + (wanted * GROUP).min(self.segments.load(Relaxed)) * SEGMENT_META;
        if !os::commit(from, to - from) {
            return false;
        }
        COMMITTED.fetch_add(to - from, Relaxed);
        // Release: `groups` and `find` read what is below `top`.
        self.top.store(wanted, Release);
        true
    }
}

/// Words of an arena's summary for one row.
fn summary_words(segments: usize) -> usize {
    segments.div_ceil(GROUP).div_ceil(64)
}

fn summary_bytes(segments: usize) -> usize {
    (ROWS + SET_ROWS) * summary_words(segments) * size_of::<AtomicU64>()
}

/// The numbers of the bits that are set, lowest first.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}
