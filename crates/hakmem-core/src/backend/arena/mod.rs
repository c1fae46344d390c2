//! The arena: one large reserved range of address space, and the arithmetic from a pointer to its
//! metadata.
//!
//! ```text
//! reserved:  | guard | summary, groups | metadata, 128 bytes a slot | guard … align 2 MiB … |
//!            | data: segments of 2 MiB, slots of 64 KiB | guard |
//! ```
//!
//! Slot `i` of the data has its metadata at `metas + 128 i`. 32 slots make a segment, so the
//! metadata of a segment is one aligned piece of 4 KiB. The system faults it in and commits it as a
//! whole. A *group* is a line of bitmaps for 64 segments. hakmem adds a further arena when one is
//! full, or when the first one had to be small (RLIMIT_AS, valgrind).
//!
//! Rules
//! 1. `HOT` describes the first arena. What `HOT` lets in is hakmem's. For all other pointers,
//!    `find` has the last word. The limit of `HOT` is lowered when the arena's tail is given up
//!    (`space`).
//! 2. Threads read the words of `HOT` without a lock while another thread may write them. This race
//!    is accepted, and is no data race in Rust's model: writes are atomic stores, and reads act as
//!    relaxed atomic loads. `page::bounds` says why every value that a reader can see is harmless.
//! 3. `take_run` gives a segment to its caller, who owns it until `give_run`. The sets of used and
//!    of committed segments, `top` and the hints change under the lock only.
//! 4. Metadata is readable for ever from the moment its arena is known, used or not. The one
//!    exception is the metadata of a tail that was given up, if its groups were never in use. From
//!    the moment that a group is in use (`top`), its metadata is writable for ever, too.
//! 5. A scrap is never the arena of `HOT`, because `HOT` knows nothing of slots that are not the
//!    arena's. For a pointer into such a slot, `find` says that it is foreign.
//! 6. Guards are never accessible. So a write beyond a block, or beyond what the kernel mapped
//!    beside an arena, meets no metadata.
//! 7. Addresses become pointers in `os::at`, and nowhere else in the crate.
//! 8. Only the owner of a segment makes it committed, or no longer committed. It lets go of the
//!    lock while it asks the system. The set of committed segments names a segment only while it is
//!    accessible.
//! 9. A segment without an owner is clean: not resident, and zero. hakmem has told the kernel
//!    nothing of it but what `THP` says of all memory. Where hakmem cannot make it so (the system
//!    has no room for another map, or the program has sealed the segment), the segment may have
//!    huge pages or none, which costs only time.
//! 10. Groups that are not in use are left out of core dumps from the second commit on: a debugger
//!     does not know what is resident, and writes zeros for the rest. Not from the first one on: a
//!     program's filter may know the calls of its first block alone (`docs/c-abi.md`). A group that
//!     comes into use is in dumps again before anyone owns a segment of it. If that fails, all
//!     groups of the arena are. Before the process gets a filter that hakmem sees, those of all
//!     arenas are, for good (`take_all_into_dumps` says when not).

mod bits;
mod find;
mod layout;
mod rows;
mod run;
mod space;
// These tests ask the kernel what is mapped, and map more than Miri has memory for. Models have
// threads of their own.
#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests;

use crate::backend::nodes;
use crate::base::sync::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::os;
pub use crate::os::at;
use crate::policy;
use crate::proto::bounds::Bounds;
use crate::proto::lock::Lock;
#[cfg_attr(
    any(miri, shuttle),
    allow(unused_imports, reason = "for the note, which these have not")
)]
pub use bits::FULL_ROW;
use bits::Set;
use core::ptr::null_mut;
use crossbeam_utils::CachePadded;
pub use find::{find, in_books, is_for_ever, is_meta, of_meta, start_of};
pub use layout::take_all_into_dumps;
pub use run::{
    Run, commit_run, decommit_after_refusal, decommit_run, decommit_unused, extend_run, give_run,
    take_run, take_segment,
};
pub use space::{LARGEST, fit_limit, give_tails_up, give_up, is_limited, make_room, take_scrap};

/// log2 of a slot's size in bytes.
pub const SLOT_SHIFT: u32 = 16;
/// Bytes of a slot: 64 KiB.
pub const SLOT: usize = 1 << SLOT_SHIFT;
/// Bytes of a segment: 2 MiB.
pub const SEGMENT: usize = 2 << 20;
/// Bytes of a guard. No machine has larger system pages.
const GUARD: usize = SLOT;
/// Bytes of metadata of a slot.
pub const META: usize = 128;
/// Bytes of metadata of a segment.
pub const SEGMENT_META: usize = SEGMENT / SLOT * META;
/// Segments in a group.
pub const GROUP: usize = 64;
/// Bins of the segments with free slots, by their longest run of free slots: 1, 2–3, 4–7, 8–15 or
/// more.
pub const BINS: usize = 5;
/// Rows of hints for segments: a row for each bin, and one for segments with DIRTY slots.
pub const ROWS: usize = BINS + 1;
/// The row of segments with DIRTY slots.
pub const DIRTY_ROW: usize = BINS;

const MAX_ARENAS: usize = 64;

/// Bitmaps for 64 segments: bit i stands for the ith segment of the group. The words of used and of
/// committed segments tell only half: see `bits`.
#[repr(C, align(64))]
pub struct Group {
    pub used: AtomicU64,
    committed: AtomicU64,
    /// Hints of the segment layer. The arena's summary says in which groups they have bits.
    rows: [AtomicU64; ROWS],
}

/// The bounds of the first arena, for the fast path (rule 2).
pub static HOT: Bounds = Bounds::new();

/// A reserved range.
pub struct Arena {
    pub data: AtomicUsize,
    /// Segments that hakmem reserved. The layout follows from it.
    pub reserved: AtomicUsize,
    /// Segments that the arena has. Only shrinks: see `space`.
    pub segments: AtomicUsize,
    /// Segments that have metadata: those of the arena, and all segments of the groups in use.
    known: AtomicUsize,
    pub groups: AtomicPtr<Group>,
    /// For each row, a bit for each group that has a bit set in it. Behind them lie the rows of
    /// `bits`.
    pub summary: AtomicPtr<AtomicU64>,
    pub metas: AtomicPtr<u8>,
    /// The groups below this one are in use: the metadata of their slots is accessible. Only grows.
    pub top: AtomicUsize,
    /// The groups that are not in use were left out of core dumps, or never will be (rule 10).
    is_left_out: AtomicBool,
    /// The first slot that is the arena's. 0 except in a scrap (`space`).
    from: AtomicUsize,
    /// Slots at the end of the last segment that are not the arena's. 0 except in a scrap.
    cut: AtomicUsize,
    /// Where searches for unused segments begin. Away from the fields that all threads read.
    hints: CachePadded<[Hint; HINTS]>,
    /// The same for searches of the groups of a node, if there are several.
    near: [[Hint; HINTS]; nodes::MOST],
}

/// No run of `len` unused segments begins below `from`. So the next search for at least as many
/// begins there. An arena has one hint for each logarithm of a search's length, and the last one is
/// for all longer searches. The hints of a node are of its groups alone. They stay right when there
/// are more nodes, as each then has some of the groups that it had, or none before. In the child of
/// a fork the two fields may come from different searches, which at worst loses address space.
struct Hint {
    len: AtomicUsize,
    from: AtomicUsize,
}
const HINTS: usize = 8;

impl Hint {
    /// Says nothing. All zero bytes, so that the table of arenas takes no room in the executable.
    const fn new() -> Self {
        Self { len: AtomicUsize::new(0), from: AtomicUsize::new(0) }
    }
}

pub static ARENAS: [Arena; MAX_ARENAS] = [const { Arena::new() }; MAX_ARENAS];
#[unsafe(link_section = ".data.hakmem")]
pub static COUNT: AtomicU8 = AtomicU8::new(0);
/// A thread holds it for every change that rule 3 names.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
#[unsafe(link_section = ".data.hakmem")]
pub static RESERVED: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data.hakmem")]
pub static COMMITTED: AtomicUsize = AtomicUsize::new(0);

/// Bytes reserved and bytes committed, over all arenas.
pub fn totals() -> (usize, usize) {
    (RESERVED.load(Relaxed), COMMITTED.load(Relaxed))
}

/// Bytes of metadata that are accessible, over all arenas. O(arenas).
pub fn metadata_bytes() -> usize {
    let of = |arena: &Arena| {
        let groups = arena.top.load(Relaxed);
        groups * size_of::<Group>()
            + (groups * GROUP).min(arena.segments.load(Relaxed)) * SEGMENT_META
    };
    all().map(of).sum()
}

/// Every arena, oldest first.
pub fn all() -> impl Iterator<Item = &'static Arena> {
    // Acquire: `chain` writes an arena's fields before it counts the arena (release).
    ARENAS[..usize::from(COUNT.load(Acquire))].iter()
}

impl Arena {
    /// No range yet. All zero bytes.
    const fn new() -> Self {
        Self {
            data: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            segments: AtomicUsize::new(0),
            known: AtomicUsize::new(0),
            groups: AtomicPtr::new(null_mut()),
            summary: AtomicPtr::new(null_mut()),
            metas: AtomicPtr::new(null_mut()),
            top: AtomicUsize::new(0),
            is_left_out: AtomicBool::new(false),
            from: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
            hints: CachePadded::new([const { Hint::new() }; HINTS]),
            near: [const { [const { Hint::new() }; HINTS] }; nodes::MOST],
        }
    }

    /// Address of slot `slot`.
    #[inline]
    pub fn slot_address(&self, slot: usize) -> usize {
        self.data.load(Relaxed) + (slot << SLOT_SHIFT)
    }

    /// Metadata of slot `slot`.
    #[inline]
    pub fn meta(&self, slot: usize) -> *mut u8 {
        self.metas.load(Relaxed).wrapping_add(slot * META)
    }

    /// The groups that are in use.
    fn groups(&self) -> &'static [Group] {
        // Acquire: `make_ready` made the groups accessible before it counted them in `top`
        // (release).
        // SAFETY: so the first `top` groups are accessible, and stay so for ever. They hold only
        // atomics, so threads may share them.
        unsafe { core::slice::from_raw_parts(self.groups.load(Relaxed), self.top.load(Acquire)) }
    }

    /// The group of segment `segment`, and the segment's bit in it.
    fn group_of(&self, segment: usize) -> (&'static Group, u64) {
        (&self.groups()[segment / GROUP], 1 << (segment % GROUP))
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
}

/// The numbers of the set bits, lowest first.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || (word != 0).then(|| take_lowest(&mut word)))
}

/// Clears the lowest bit that is set, and returns its number. `word` is not 0.
#[inline(always)]
fn take_lowest(word: &mut u64) -> usize {
    let lowest = word.trailing_zeros() as usize;
    *word &= *word - 1;
    lowest
}
