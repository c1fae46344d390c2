//! What each slot of each segment holds, for the map.

use super::heap_walk::{self, Held};
use super::{SEGMENT_BYTES, SLOT_BYTES};
use crate::backend::owner::Owner;
use crate::backend::page::{Meta, PageState};
use crate::base::sync::Ordering::Relaxed;
use crate::heap::{reclaim::parked, shared::SharedHeap};
use crate::{os, thread};
use core::cell::Cell;

/// Slots in a segment.
const SLOTS: usize = SEGMENT_BYTES / SLOT_BYTES;

/// A segment in use.
///
/// ```
/// use hakmem_core::stats::{self, SEGMENT_BYTES};
///
/// stats::each_segment(&mut |segment| assert_eq!(segment.address % SEGMENT_BYTES, 0));
/// ```
pub struct Segment {
    head: &'static Meta,
    /// The address of its first byte.
    pub address: usize,
    /// True if it asks for THP.
    pub thp: bool,
    /// For a huge block: its segments, and the segments behind that are kept for it to grow into.
    pub huge: Option<(u32, u32)>,
    looks_into_lists: bool,
}

/// A run of slots.
///
/// ```
/// use hakmem_core::stats::{self, Slot};
///
/// stats::each_segment(&mut |segment| {
///     for Slot { first, span, .. } in segment.slots() {
///         assert!(first + span <= 32, "within its segment");
///     }
/// });
/// ```
pub struct Slot {
    /// The number of its first slot.
    pub first: u32,
    /// Number of slots.
    pub span: u32,
    /// What the slots hold.
    pub content: Content,
}

/// What slots hold.
///
/// ```
/// use hakmem_core::stats::{self, Content};
///
/// let mut large = 0;
/// stats::each_segment(&mut |segment| {
///     large += segment.slots().filter(|slot| matches!(slot.content, Content::Large)).count();
/// });
/// println!("{large} large blocks");
/// ```
pub enum Content {
    /// Nothing. They take no memory.
    Clean,
    /// Nothing. Their memory has not been given back to the system.
    Dirty,
    /// Free memory that a heap or the huge cache keeps for later allocations.
    Kept,
    /// A large block.
    Large,
    /// Blocks of one size.
    Page(Page),
}

/// A page of blocks.
///
/// ```
/// use hakmem_core::stats::{self, Content};
///
/// let mut bytes = 0;
/// stats::each_segment(&mut |segment| {
///     for slot in segment.slots() {
///         if let Content::Page(page) = slot.content {
///             bytes += u64::from(page.used) * u64::from(page.size);
///         }
///     }
/// });
/// println!("{bytes} bytes are in small blocks");
/// ```
pub struct Page {
    /// Bytes of a block.
    pub size: u32,
    /// Blocks that fit.
    pub blocks: u32,
    /// Blocks that were carved.
    pub carved: u32,
    /// Blocks that are live, on the lists of other running threads, or in flight.
    pub used: u32,
    /// Where its owner keeps it: in the queue of its class, full (all blocks are used), retired
    /// (empty, the only one of its class), candidate (to be parked soon) or parked (few blocks
    /// used).
    pub state: &'static str,
}

/// A word of the metadata of a page. Another thread may be changing the word. Any value that it had
/// will do for a picture.
fn glance<T: Copy>(cell: &Cell<T>) -> T {
    // SAFETY: metadata is accessible for ever, and aligned. A volatile read of a word is one load,
    // so it gives a value that a thread stored. The map only shows the value.
    unsafe { cell.as_ptr().read_volatile() }
}

impl Segment {
    /// Its slots; none for a huge block.
    ///
    /// O(1) for each.
    ///
    /// ```
    /// use hakmem_core::stats;
    ///
    /// stats::each_segment(&mut |segment| {
    ///     let slots: u32 = segment.slots().map(|slot| slot.span).sum();
    ///     assert_eq!(slots, if segment.huge.is_none() { 32 } else { 0 });
    /// });
    /// ```
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        let runs = self.huge.is_none().then(|| heap_walk::slots(self.head));
        runs.into_iter().flatten().map(|(first, span, held)| {
            let content = match held {
                Held::Clean => Content::Clean,
                Held::Dirty => Content::Dirty,
                Held::Kept => Content::Kept,
                Held::Large => Content::Large,
                Held::Page(page) => Content::Page(self.page(page)),
            };
            Slot { first, span, content }
        })
    }

    fn page(&self, meta: &Meta) -> Page {
        let (until_slow, carved) = (glance(&meta.until_slow), glance(&meta.carved));
        let owner = meta.owner();
        let (out, state) = match meta.state.get() {
            PageState::Retired => (0, "retired"),
            PageState::Full => (carved as i32 - glance(&meta.unfull_at) + until_slow, "full"),
            // These count down to no used block.
            PageState::Candidate => (until_slow, "candidate"),
            PageState::Parked => (until_slow, "parked"),
            _ => (until_slow + i32::from(glance(&meta.park_at)), "queue"),
        };
        let listed = if self.looks_into_lists { listed(owner, meta) } else { 0 };
        Page {
            size: glance(&meta.block_size),
            blocks: glance(&meta.cap),
            carved,
            used: (out.max(0) as u32).min(carved).saturating_sub(listed),
            state,
        }
    }

    /// Pieces of 4 KiB that are resident, in each slot of the segment's `nth`: 0 but for huge
    /// blocks. None: the system does not say.
    ///
    /// One system call.
    ///
    /// ```
    /// use hakmem_core::stats;
    ///
    /// stats::each_segment(&mut |segment| {
    ///     if let Some(pieces) = segment.resident(0) {
    ///         let pieces: u64 = pieces.iter().map(|&n| u64::from(n)).sum();
    ///         println!("{} KiB of {:#x} are resident", pieces * 4, segment.address);
    ///     }
    /// });
    /// ```
    pub fn resident(&self, nth: usize) -> Option<[u8; SLOTS]> {
        let page = os::page_size();
        let mut pages = [os::Page::Absent; SEGMENT_BYTES / 4096];
        let pages = &mut pages[..SEGMENT_BYTES / page];
        if !os::Pagemap::open()?.read(self.address + nth * SEGMENT_BYTES, pages) {
            return None;
        }
        let mut counts = [0; SLOTS];
        for (count, slot) in counts.iter_mut().zip(pages.chunks(SLOT_BYTES / page)) {
            let resident = slot.iter().filter(|&&page| page == os::Page::Resident).count();
            *count = (resident * (page / 4096)).min(255) as u8;
        }
        Some(counts)
    }
}

/// Blocks of `page` on its owner's list, if the owner is the calling thread's heap. Otherwise 0.
fn listed(owner: *mut Owner, page: &Meta) -> u32 {
    if owner.is_null() || owner == parked::owner() {
        return 0;
    }
    // SAFETY: an owner that is not the list of parked pages is a heap. Heaps are never freed.
    let heap = unsafe { &*owner.cast::<SharedHeap>() };
    if !heap.has_front(thread::front()) || heap.is_busy() {
        return 0;
    }
    let bytes = page.span.load(Relaxed) as usize * SLOT_BYTES;
    let start = page.start().addr();
    // SAFETY: this thread's word leads to the heap, so this thread holds it. It is not in the
    // middle of a change, so no thread changes the list or writes to its blocks during the call.
    unsafe { heap.holder().listed_within(usize::from(page.class.get()), start..start + bytes) as u32 }
}

/// Calls `f` with each segment in use, by address within each arena. O(segments), and for each page
/// that the calling thread has, the blocks on its list of that class.
///
/// ```
/// use hakmem_core::{Hakmem, stats};
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// let data = vec![1u8; 100];
/// let mut segments = 0;
/// stats::each_segment(&mut |_| segments += 1);
/// assert!(segments > 0);
/// # drop(data); }
/// ```
pub fn each_segment(f: &mut dyn FnMut(&Segment)) {
    walk(!thread::holds_a_lock(), f);
}

/// As [`each_segment`], in whatever state this thread is: for signal handlers. Takes no lock, and
/// looks into no list.
///
/// O(segments).
///
/// ```
/// use hakmem_core::stats;
///
/// // What a signal handler may do.
/// let mut segments = 0;
/// stats::each_segment_from_outside(&mut |_| segments += 1);
/// # let _ = segments;
/// ```
pub fn each_segment_from_outside(f: &mut dyn FnMut(&Segment)) {
    walk(false, f);
}

#[inline(never)]
fn walk(looks_into_lists: bool, f: &mut dyn FnMut(&Segment)) {
    heap_walk::each_segment(|head, address, huge| {
        let thp = head.segment().is_thp();
        let huge = huge.map(|(span, room)| (span, room - span));
        f(&Segment { head, address, thp, huge, looks_into_lists });
    });
}
