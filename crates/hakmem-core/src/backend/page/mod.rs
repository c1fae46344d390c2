//! Pages: runs of 1 or 8 slots of 64 KiB that hold blocks of one class, and the metadata of every slot.
//!
//! Blocks have no header. A free block carries the link of its list in its first word. A page's owner pushes freed
//! blocks on the page's own list; when the heap's list for the class is empty, it takes the page's list whole. So
//! neither malloc nor free counts anything but `until_slow`:
//!
//! - page in its class's queue: `until_slow + park_at` blocks are out (with the program, in the heap's list, or on their way
//!   through an inbox). Zero means that only `park_at` are left: none, or so few that the page is to be parked (`parked`).
//! - full page, which no queue has: `until_slow` more frees make it worth waking.
//!
//! In all, the free that brings it to zero takes the slow path; one branch serves them.
//!
//! ```text
//! carved blocks = until_slow + park_at + length of `free` + in_holes     (in the queue)
//! unfull_at = until_slow + length of `free`                    (full page)
//! ```
//!
//! Rules
//! 1. The first line of a page's metadata is written by its owner only: the thread that holds the heap in `owner`, or
//!    `parked`'s lock for its pages. Others read `owner`, `block_size` and `class` alone, and only for a block that is live.
//!    While one is, the last two stand; `owner` changes when the page is parked or unparked, so it may be the former one
//!    that is read, and who gets blocks of a page that is no longer its passes them on (`proto::owner`). A thread never takes a page for
//!    its own that is not: what it read last of `owner` is not older than what it wrote there, or the heap's last thread.
//! 2. `owner` is null unless blocks of the page are out: freeing into an empty page takes the slow path, and is seen. It is
//!    null, too, for pages of sampled blocks, whose first line is `profile`'s.
//! 3. The second line is written by who owns the slot (see `proto::slots`), before a block of it is handed out and
//!    after the last came back.
//! 4. A block is on one list only. Blocks from the inbox are merged into `free` before `free` is handed to the heap.

pub mod bounds;
pub mod queue;

use crate::backend::arena::{self, Arena, META, SEGMENT, SEGMENT_META, SLOT};
use crate::backend::owner::Owner;
use crate::base::sync::{AtomicU8, AtomicU32, Ordering::Relaxed};
use crate::proto::inbox::Link;
use crate::proto::owner::OwnerWord;
use crate::proto::page_list::PageRemoteList;
use crate::proto::run_bin::RunBin;
use crate::proto::slots::Slots;
use core::cell::Cell;
use core::ptr::null_mut;

/// A free block.
#[repr(C)]
pub struct Block {
    /// The next block of the list.
    pub next: Cell<*mut Block>,
}

// SAFETY: the link is one word of the block.
unsafe impl Link for Block {
    unsafe fn next(this: *mut Self) -> *mut Self {
        // SAFETY: the caller owns the block.
        unsafe { (*this).next.get() }
    }
    unsafe fn set_next(this: *mut Self, next: *mut Self) {
        // SAFETY: the caller owns the block.
        unsafe { (*this).next.set(next) }
    }
}

/// What a slot is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Nobody's, or in a cache: no live block starts or lies here.
    Free = 0,
    /// The first slot of a page of blocks.
    Page = 1,
    /// A further slot of such a page.
    Follow = 2,
    /// The first slot of an allocation of whole slots.
    Large = 3,
    /// The first slot of an allocation of whole segments.
    Huge = 4,
    /// The first slot of a page of sampled blocks (`profile::pages`).
    Sampled = 6,
    /// A sampled allocation of whole slots (`profile::marked`).
    SampledLarge = 7,
    /// A sampled allocation of whole segments.
    SampledHuge = 8,
}

/// Where the owner keeps a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PageState {
    /// In the queue of its class.
    Queue = 0,
    /// Full: no list holds it, its blocks are all out.
    Full = 1,
    /// In the queue, empty, without an owner: kept because it is the class's only one.
    Retired = 2,
    /// Among the heap's cached empty pages.
    Cached = 3,
    /// In the queue, with few blocks out: about to be parked.
    Candidate = 4,
    /// Parked, with few blocks out.
    Parked = 5,
}

/// The list of `parked` that a page is in. All zero bytes are `Fresh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ParkedList {
    /// Few blocks are out: its holes are to be purged.
    Fresh = 0,
    /// As that, and nothing changed since its holes were purged.
    Purged = 1,
    /// Blocks of it are handed to any heap that shares.
    Shared = 2,
    /// None: all its blocks are out.
    Full = 3,
}

/// Metadata of one slot.
#[repr(C, align(128))]
pub struct Meta {
    // The owner's line (rule 1).
    /// The heap whose blocks these are, and `MEDIUM`: see `Meta::owner`.
    pub owner_word: OwnerWord<Owner>,
    /// Freed blocks.
    pub free: Cell<*mut Block>,
    /// The countdown.
    pub until_slow: Cell<i32>,
    /// Blocks that have been on a list or out since the page was claimed; those beyond are untouched memory.
    pub carved: Cell<u32>,
    /// Neighbours in the queue, or in another list of pages.
    pub next: Cell<*mut Meta>,
    /// See `next`.
    pub prev: Cell<*mut Meta>,
    /// Blocks that fit.
    pub cap: Cell<u32>,
    /// Bytes of a block.
    pub block_size: Cell<u32>,
    /// The size class.
    pub class: Cell<u8>,
    /// Where the page is.
    pub state: Cell<PageState>,
    /// True if the memory was zero when the page was claimed.
    pub zero: Cell<bool>,
    /// Blocks that are out when `until_slow` is zero.
    pub park_at: Cell<u8>,
    /// Full: what the countdown started from.
    pub unfull_at: Cell<i32>,
    /// See `holes`.
    pub holes: Cell<u16>,
    /// See `holes`.
    pub in_holes: Cell<u16>,
    /// Parked: which of `parked`'s lists it is in.
    pub parked_list: Cell<ParkedList>,
    _pad: [u8; 3],

    // The slot's line (rule 3).
    pub kind: AtomicU8,
    /// Slots back to the page's first one.
    pub back: AtomicU8,
    /// Length: in slots for a page or a large allocation, in segments for a huge block.
    pub span: AtomicU32,
    /// For a huge block: segments of its run, the span and the reserve behind it.
    pub reserve: AtomicU32,
    /// For a parked page and for a huge block: when it was, or was freed, in coarse milliseconds. For a huge block that is live: how
    /// often it grew.
    pub stamp: AtomicU32,
    /// Of blocks of 8 bytes: what other threads freed (`remote_batch` rule 2).
    pub remote_list: PageRemoteList<Block>,
    /// What its `remote_list` is linked by (`proto::page_list` rule 2).
    pub remote_link: Cell<*mut u8>,
    /// Of the whole segment; used in the metadata of its first slot only.
    pub segment: SegmentMeta,
}

const _: () = assert!(size_of::<Meta>() == META && core::mem::offset_of!(Meta, kind) == 64);

/// Metadata of a segment.
#[repr(C)]
pub struct SegmentMeta {
    /// Who has which slots.
    pub slots: Slots,
    /// When a slot became DIRTY last, in coarse milliseconds.
    pub stamp: AtomicU32,
    /// 1 + the bin under which the segment is listed.
    pub bin: RunBin,
    /// What the kernel was told about huge pages here: `UNTOLD`, `THP` or `NOT_THP`.
    pub thp: AtomicU8,
}

/// Nothing: the system's choice.
pub const UNTOLD: u8 = 0;
/// They were asked for.
pub const THP: u8 = 1;
/// They were refused.
pub const NOT_THP: u8 = 2;

impl SegmentMeta {
    /// True if huge pages were asked for.
    pub fn is_thp(&self) -> bool {
        self.thp.load(Relaxed) == THP
    }
}

/// Offset of the word that `free` compares with the thread's.
#[cfg_attr(any(miri, shuttle, sanitizer), allow(dead_code, reason = "these have no assembly"))]
pub const OWNER_WORD: usize = core::mem::offset_of!(Meta, owner_word);

/// In the owner's word of pages of several slots: no thread's word is equal to it, so that `free` leaves their blocks to the
/// path for medium ones, wherever they start.
const MEDIUM: usize = 1;

impl Meta {
    /// The heap whose blocks these are. Null: nobody's, or no page of blocks.
    #[inline]
    pub fn owner(&self) -> *mut Owner {
        self.owner_word.get().map_addr(|word| word & !MEDIUM)
    }

    /// What `free` compares with the thread's word.
    #[inline]
    pub fn owner_word(&self) -> *mut Owner {
        self.owner_word.peek()
    }

    /// Makes the page `owner`'s, which is not null. Its length is set.
    #[inline]
    pub fn set_owner(&self, owner: *mut Owner) {
        let medium = if self.span.load(Relaxed) > 1 { MEDIUM } else { 0 };
        self.owner_word.set(owner.map_addr(|word| word | medium));
    }

    /// Makes the page nobody's (rule 2).
    #[inline]
    pub fn clear_owner(&self) {
        self.owner_word.clear();
    }

    /// True for a page of several slots that has an owner.
    #[inline]
    pub fn is_medium(&self) -> bool {
        self.owner_word().addr() & MEDIUM != 0
    }

    /// What the slot is used for.
    #[inline]
    pub fn kind(&self) -> Kind {
        match self.kind.load(Relaxed) {
            1 => Kind::Page,
            2 => Kind::Follow,
            3 => Kind::Large,
            4 => Kind::Huge,
            6 => Kind::Sampled,
            7 => Kind::SampledLarge,
            8 => Kind::SampledHuge,
            _ => Kind::Free,
        }
    }

    /// Sets what the slot is used for (rule 3).
    pub fn set_kind(&self, kind: Kind) {
        self.kind.store(kind as u8, Relaxed);
    }

    /// The segment's metadata.
    #[inline]
    pub fn segment(&self) -> &SegmentMeta {
        // SAFETY: the first slot's metadata starts the aligned piece in which this one lies, and is as long-lived.
        unsafe { &(*self.first_of_segment()).segment }
    }

    fn first_of_segment(&self) -> *const Meta {
        core::ptr::from_ref(self).map_addr(|a| a & !(SEGMENT_META - 1))
    }

    /// The slot's number in its segment.
    #[inline]
    pub fn slot(&self) -> u32 {
        (core::ptr::from_ref(self).addr() % SEGMENT_META / META) as u32
    }

    /// The arena and the page number.
    pub fn slot_in_arena(&self) -> (&'static Arena, usize) {
        arena::of_meta(core::ptr::from_ref(self).addr())
    }

    /// The first byte of the slot.
    pub fn start(&self) -> *mut u8 {
        arena::at(arena::start_of(core::ptr::from_ref(self).addr()))
    }

    /// The arena and the segment's number there.
    pub fn segment_in_arena(&self) -> (&'static Arena, usize) {
        let (arena, page) = self.slot_in_arena();
        (arena, page / (SEGMENT / SLOT))
    }

    /// The metadata of the slot `n` further on.
    ///
    /// # Safety
    /// There is such a slot in the segment.
    #[inline]
    pub unsafe fn forward(&self, n: u32) -> &'static Meta {
        // SAFETY: the metadata of a segment's slots lies side by side, and is accessible for ever.
        unsafe { &*core::ptr::from_ref(self).wrapping_add(n as usize) }
    }

    /// From any slot of a page to its first one.
    #[inline]
    pub fn head(&self) -> &'static Meta {
        let back = if self.kind() == Kind::Follow { self.back.load(Relaxed) } else { 0 };
        // SAFETY: as in `forward`; `back` was set when the page was claimed (rule 3).
        unsafe { &*core::ptr::from_ref(self).wrapping_sub(usize::from(back)) }
    }

    /// [`Meta::head`] for a slot that a live block starts in: only a page's first slot has an owner (rule 2), so that
    /// the second line is read for the others alone.
    #[inline]
    pub fn head_of_block(&'static self) -> &'static Meta {
        if self.owner().is_null() { self.head() } else { self }
    }

    /// A raw pointer, for lists of pages.
    #[inline]
    pub fn raw(&self) -> *mut Meta {
        core::ptr::from_ref(self).cast_mut()
    }

    /// Makes `span` slots from this one, which the caller has claimed, a page of `class`.
    pub fn open(&self, owner: *mut Owner, class: usize, block_size: u32, span: u32, zero: bool) {
        self.free.set(null_mut());
        self.until_slow.set(0);
        self.park_at.set(0);
        self.holes.set(0);
        self.in_holes.set(0);
        self.carved.set(0);
        self.cap.set(span * SLOT as u32 / block_size);
        self.block_size.set(block_size);
        self.class.set(class as u8);
        self.state.set(PageState::Queue);
        self.zero.set(zero);
        self.span.store(span, Relaxed);
        self.remote_list.clear();
        for i in 1..span {
            // SAFETY: the caller has claimed `span` slots from this one.
            let follow = unsafe { self.forward(i) };
            follow.clear_owner();
            follow.back.store(i as u8, Relaxed);
            follow.set_kind(Kind::Follow);
        }
        self.set_kind(Kind::Page);
        self.set_owner(owner);
    }

    /// [`Meta::open`] for a page of sampled blocks: it has no owner, so that their frees take the slow path.
    pub fn open_ownerless(&self, class: usize, block_size: u32, span: u32, zero: bool) {
        self.open(null_mut(), class, block_size, span, zero);
        self.clear_owner();
        self.set_kind(Kind::Sampled);
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.span.load(Relaxed) as usize * SLOT
    }

    /// Blocks in `free`, of a page in a queue.
    #[inline(always)]
    pub fn listed(&self) -> i32 {
        let in_holes = i32::from(self.in_holes.get()) + i32::from(self.park_at.get());
        self.carved.get() as i32 - in_holes - self.until_slow.get()
    }

    /// Blocks that are free and on no list but the page's, or in holes. The owner's to ask (rule 1).
    pub fn waiting(&self) -> u64 {
        let out = match self.state.get() {
            PageState::Full => self.carved.get() as i32 - self.unfull_at.get() + self.until_slow.get(),
            _ => self.until_slow.get() + i32::from(self.park_at.get()),
        };
        (self.carved.get() as i32 - out).max(0) as u64
    }

    /// Sets the countdown of a page in a queue of which `out` blocks are out, to end when only `park_at` are.
    pub fn count_down(&self, out: i32, base: u8) {
        self.park_at.set(base);
        self.until_slow.set(out - i32::from(base));
    }

    /// Ends the page: freeing into it is an error from now on (rule 2).
    pub fn close(&self) {
        self.clear_owner();
        if cfg!(debug_assertions) {
            self.class.set(u8::MAX); // Whoever reads it after that (rule 1) is out of bounds.
        }
        for i in 0..self.span.load(Relaxed) {
            // SAFETY: the page has `span` slots.
            unsafe { self.forward(i) }.set_kind(Kind::Free);
        }
    }
}

/// The metadata of the page that `p` points into, found through the first arena or any other; None: not ours.
#[inline]
pub fn lookup(p: *mut u8) -> Option<&'static Meta> {
    lookup_first(p).or_else(|| {
        let (arena, page) = arena::find(p.addr())?;
        // SAFETY: as in `lookup_first`.
        Some(unsafe { &*arena.meta(page).cast::<Meta>() })
    })
}

/// [`lookup`] in the first arena alone.
#[inline(always)]
pub fn lookup_first(p: *mut u8) -> Option<&'static Meta> {
    let offset = bounds::offset(p.addr())?;
    // SAFETY: metadata of used segments is accessible for ever; all its fields may be shared.
    Some(unsafe { &*bounds::meta((offset >> arena::SLOT_SHIFT) * META) })
}
