//! Pages: runs of 1 or 8 slots of 64 KiB that hold blocks of one class, and the metadata of every
//! slot.
//!
//! Blocks have no header. The first word of a free block is the link of its list. The owner of a
//! page pushes freed blocks onto `list`, the page's own one. When the heap's list of the class is
//! empty, the owner takes all of it. Blocks of the page that was taken last go to the heap's list
//! at once (`heap::free::current`), and so do blocks above `SMALL_MAX` while that has few of them:
//! `frees_to` says so (`list`). So neither malloc nor free of a small block counts anything but
//! `until_slow`.
//!
//! `until_slow` is a countdown: it counts frees until the slow path.
//! - Page in the queue of its class: until only `park_at` blocks are used. That is none, or so few
//!   that the heap parks the page (`parked`).
//! - Full page, which is in no queue: until one in eight of its blocks is free (`UNFULL_FRACTION`),
//!   or 32 of them are.
//!
//! The free that brings it to zero takes the slow path. So one branch serves both cases.
//!
//! A block is *used* unless it is on the page's list or in a hole. So a used block is the
//! program's, or on a heap's list, or in a remote batch that no merge has taken apart.
//!
//! ```text
//! carved blocks = until_slow + park_at + length of the list + in_holes     (in the queue)
//! unfull_at = until_slow + length of the list                    (full page)
//! ```
//!
//! Rules
//! 1. Who writes: only the owner of a page writes the first line of its metadata, and of the second
//!    line what describes the page: `owner_word`, `cap`, `block_size` and `class`. That is the
//!    thread that holds the heap in `owner`. For a parked page it is the thread that holds
//!    `parked`'s lock, or for a moment the thread that purges the page (`parked::purge` rule 3). A
//!    retired or cached page names no owner: it is the holder of the heap that keeps it. Before a
//!    page is opened it is the thread that claimed the slot.
//! 2. `owner` is not null while a block of the page is used, and null otherwise. So a free into an
//!    empty page takes the slow path, which reports the error. Each slot's word names the owner of
//!    its page. So `free` compares that word, and need not read the first slot. `owner` answers for
//!    the first slot only. A thread that sets or clears the owner does so in all slots. `owner` is
//!    also null for a page of sampled blocks, whose first line belongs to `profile`, and for a page
//!    of a program heap: the holder of that heap's lock has the first line (`program` rule 1).
//! 3. Who writes the rest of the second line: the owner of the slot (see `proto::slots`), before a
//!    block of the slot is allocated and after the last block was freed. While a large or huge
//!    block is live: the thread that allocates or resizes it. `stamp` of a parked page belongs to
//!    `parked`'s lock. `remote_list`, `remote_link` and `segment` have protocols of their own
//!    (`proto::page_list`, `proto::slots`, `proto::run_bin`).
//! 4. A block is on one list at a time: the heap's, its page's, or one that is on its way through
//!    an inbox. A refill merges the inbox first. So remote frees serve before fresh memory does.
//! 5. Who reads: of the fields in rule 1, other threads read only those in the second line, and
//!    only for a block that is live or that they free. They do not change while the page has such a
//!    block, but for `owner_word`. So a thread that got the block reads what the owner wrote
//!    before. A free by another thread does not fetch the line that the owner writes with each
//!    free. `state` has its own protocol (`proto::page_state`). Exceptions: maps and reports read
//!    further fields while the owner may write them (`glance`), and so do a purge
//!    (`reclaim::sleeping` rule 5), the checks of a batch (`check`) and that of blocks that a full
//!    list passes on. These fields are words of `base::word`, so that a reader gets some value that
//!    the word had. Nothing is decided by one such value.
//! 6. Why a stale `owner` is harmless: another thread may read an owner that the page has no more.
//!    `owner` changes when the page is parked, when a heap takes it over, and while its holes are
//!    purged. The reader then sends its blocks to the former owner's inbox. An owner lives for
//!    ever, and `proto::owner` shows that the reader finds it made. An owner that merges a batch of
//!    a page which it does not own any more sends the batch on to the page's owner
//!    (`Owner::merge`). Of a heap's page the word is null only while no block is used (rule 2). So
//!    no thread that may free a block of the page finds it null.
//! 7. Why a thread that finds its own heap in `owner` is right: nobody else gives a page of that
//!    heap away. An earlier holder did so before it gave the heap up. A purge does so only while it
//!    keeps the heap's thread outside (`proto::pause`), and lets it in afterwards. A thread that
//!    ends a whole page has all its blocks (`reclaim::whole` rule 1), so this thread has none. In
//!    each case the write to `owner` comes before this thread's read, so the read finds that write
//!    or a later one. The owners of parked pages change under `parked`'s lock, and only who holds
//!    that lock merges for them.

mod block;
pub mod bounds;
mod countdown;
pub mod fetch;
pub mod glance;
mod kind;
mod of_segment;
pub mod queue;

use crate::backend::arena::{self, Arena, META, SEGMENT, SEGMENT_META, SLOT};
use crate::backend::list::List;
use crate::backend::owner::Owner;
use crate::base::size_class::{FIRST_LONG, FIRST_MEDIUM};
use crate::base::sync::{AtomicU8, AtomicU32, Ordering::Relaxed};
use crate::base::word::Word;
use crate::harden;
use crate::proto::owner::OwnerWord;
use crate::proto::page_list::PageRemoteList;
pub use crate::proto::page_state::PageState;
use crate::proto::page_state::StateCell;
pub use block::Block;
use core::cell::Cell;
use core::ptr::null_mut;
pub use kind::{Kind, ParkedList};
pub use of_segment::{NOT_THP, SegmentMeta, THP, TRIED, UNTOLD};

/// Metadata of one slot.
#[repr(C, align(128))]
pub struct Meta {
    // The owner's line (rules 1 and 5).
    /// Neighbours in the queue, or in another list of pages.
    pub next: Cell<*mut Meta>,
    /// The page's own list of free blocks, and the countdown.
    pub list: List,
    /// The list that the frees of the owner's thread go to: see `Meta::give_to` and
    /// `heap::free::current`.
    pub frees_to: Word<*mut List>,
    /// See `next`.
    pub prev: Cell<*mut Meta>,
    /// Blocks carved since the page was claimed, or since a reset of its program heap renewed it.
    /// The memory behind them is untouched, unless it was renewed.
    pub carved: Word<u32>,
    /// Where the page is.
    pub state: StateCell,
    /// True if the memory was zero when the page was claimed, and was not renewed.
    pub zero: Cell<bool>,
    /// Blocks that are used when `until_slow` is zero.
    pub park_at: Word<u8>,
    /// Of a full page: what the countdown started from. Of a page or a block of a program heap: the
    /// way by which its blocks come.
    pub unfull_at: Word<i32>,
    /// The holes in this slot, also in the metadata of a page's further slots: see `holes`.
    pub holes: Cell<u16>,
    /// See `holes`.
    pub in_holes: Cell<u16>,
    /// Of a parked page: the list of `parked` that it is in.
    pub parked_list: Cell<ParkedList>,
    /// True if the memory behind the carved blocks was purged since the page was claimed.
    pub is_tail_purged: Cell<bool>,

    _pad: [u8; 2],
    /// Of a segment of huge blocks: its slots from the first on that calloc does not give back: see
    /// `huge::clear`.
    pub cleared: Cell<u32>,

    // The slot's line (rules 3 and 5).
    /// The owner's address, in the hardened build with the bit `LISTED`: see `Meta::owner`.
    pub owner_word: OwnerWord<Owner>,
    /// Blocks that fit.
    pub cap: Word<u32>,
    /// Bytes of a block.
    pub block_size: Word<u32>,
    /// The size class.
    pub class: Word<u8>,
    pub kind: AtomicU8,
    /// How many slots back the page's first slot is, in each slot of a page. In the first slot of a
    /// huge block: whether the block moved.
    pub back: AtomicU8,
    /// Length: in slots for a page or a large allocation, in segments for a huge block.
    pub span: AtomicU32,
    /// For a huge block: segments of its run, which are the span and the reserve behind it.
    pub reserve: AtomicU32,
    /// For a parked page: when it was listed as `Unpurged`, in coarse milliseconds. For a live huge
    /// block: how often it grew.
    pub stamp: AtomicU32,
    /// For pages with blocks of 8 bytes: what other threads freed (`remote_batch` rule 2).
    pub remote_list: PageRemoteList<Block>,
    /// The link of `remote_list` in a chain (`proto::page_list` rule 2). Of a page or a block of a
    /// program heap: the heap. For other pages see `heap::reclaim::whole` rule 2.
    pub remote_link: Word<*mut u8>,
    /// Metadata of the whole segment. Used in the metadata of its first slot only.
    pub segment: SegmentMeta,
}

const _: () = assert!(size_of::<Meta>() == META && OWNER_WORD == 64);

/// Offset of the word that `free` compares with the thread's word.
#[cfg_attr(
    any(miri, shuttle, sanitizer, not(target_arch = "x86_64")),
    allow(dead_code, reason = "these compare without assembly")
)]
pub const OWNER_WORD: usize = core::mem::offset_of!(Meta, owner_word);

/// Freed blocks of the classes from this one on go onto the heap's list, while that has few of
/// them. In the hardened build a list has one such block, so only medium blocks take that way
/// there.
pub const FIRST_LISTED: usize = if harden::ON { FIRST_MEDIUM } else { FIRST_LONG };

/// In the hardened build, a bit of the owner's word of pages of classes from `FIRST_LISTED` on, in
/// all slots. No thread's word has it, so `free`'s comparison fails for all blocks of such a page,
/// and a path that looks at the heap's list gets them. In the default build there is no such bit.
const LISTED: usize = if harden::ON { 1 } else { 0 };

impl Meta {
    /// The owner of the page. Null: it has none (rule 2), or this is no first slot of a page.
    #[inline]
    pub fn owner(&self) -> *mut Owner {
        let word = self.owner_word.get();
        // The word of a further slot is for the comparison of `free` alone.
        if self.is_first() { word.map_addr(|word| word & !LISTED) } else { null_mut() }
    }

    /// True for a slot that is not a further one of a page.
    #[inline(always)]
    pub fn is_first(&self) -> bool {
        self.back.load(Relaxed) == 0
    }

    /// True for a slot that is of no page with an owner.
    #[inline(always)]
    pub fn has_no_owner(&self) -> bool {
        self.owner_word.peek().is_null()
    }

    // From a slot to the first slot of its page:
    //
    // | function         | for a slot                                                      |
    // |------------------|-----------------------------------------------------------------|
    // | `listed_head`    | whose word names an owner: one load                             |
    // | `page_and_owner` | the same, with the owner                                        |
    // | `head`           | of any kind: reads the kind first                               |
    // | `head_of_block`  | in which a live block starts: mostly reads the owner's word only |

    /// The page that the slot is of, its owner, and whether the owner's frees of its blocks go onto
    /// the heap's list, for a slot of which [`Meta::has_no_owner`] was false.
    #[inline(always)]
    pub fn page_and_owner(&'static self) -> (&'static Meta, *mut Owner, bool) {
        // For all slots alike: which of them a block is in cannot be predicted.
        let page = self.listed_head();
        let owner = page.owner_word.get().map_addr(|word| word & !LISTED);
        (page, owner, usize::from(page.class.get()) >= FIRST_LISTED)
    }

    /// The first slot of a page, from any of its slots, for slots whose word names an owner.
    #[inline(always)]
    pub fn listed_head(&self) -> &'static Meta {
        // SAFETY: `open` gave each slot of the page its distance to the first one, before the word
        // named an owner. Both slots are of one segment, whose metadata lies side by side and is
        // accessible for ever (`arena` rule 4).
        unsafe { &*core::ptr::from_ref(self).wrapping_sub(usize::from(self.back.load(Relaxed))) }
    }

    /// The word that `free` compares with the thread's word.
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer)))))]
    #[inline]
    pub fn owner_word(&self) -> *mut Owner {
        self.owner_word.peek()
    }

    /// Makes `owner` the owner of the page. `owner` is not null, and the page's class is set. If it
    /// is a heap, the page was that heap's before: see [`Meta::give_to`].
    #[inline]
    pub fn set_owner(&self, owner: *mut Owner) {
        let listed = if usize::from(self.class.get()) >= FIRST_LISTED { LISTED } else { 0 };
        let word = owner.map_addr(|word| word | listed);
        self.owner_word.set(word);
        self.each_follow(|follow| follow.owner_word.set(word));
    }

    /// Makes a heap the owner of the page, which was not the heap's before. Frees of its thread go
    /// onto the page's list, or for classes from `FIRST_LISTED` on onto the heap's.
    ///
    /// An owner that has the page for a moment leaves `frees_to` as it is: a thread of the heap may
    /// have read the heap's word before, and reads `frees_to` next (`take_away` rule 1).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn give_to(&self, heap: &Owner) {
        let class = usize::from(self.class.get());
        let list = if class >= FIRST_LISTED && !harden::ON {
            heap.front.lists.get(class).unwrap_or(&self.list)
        } else {
            &self.list
        };
        let list = core::ptr::from_ref(list).cast_mut();
        self.frees_to.set(list);
        self.each_follow(|follow| follow.frees_to.set(list));
        self.set_owner(heap.as_word());
    }

    /// Takes the owner off the page (rule 2).
    #[inline]
    pub fn clear_owner(&self) {
        self.owner_word.clear();
        self.each_follow(|follow| follow.owner_word.clear());
    }

    /// Calls `f` for the further slots of the page. Pages of small blocks have none.
    #[inline(always)]
    fn each_follow(&self, f: impl Fn(&Meta)) {
        if usize::from(self.class.get()) < FIRST_MEDIUM {
            return;
        }
        for i in 1..self.span.load(Relaxed) {
            // SAFETY: the page has `span` slots from this one, so the segment has them.
            f(unsafe { self.forward(i) });
        }
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
            9 => Kind::ProgramPage,
            10 => Kind::ProgramLarge,
            11 => Kind::ProgramHuge,
            _ => Kind::Free,
        }
    }

    /// True if the slot is used for `kind`.
    #[inline(always)]
    pub fn is(&self, kind: Kind) -> bool {
        self.kind.load(Relaxed) == kind as u8
    }

    /// Sets what the slot is used for (rule 3).
    pub fn set_kind(&self, kind: Kind) {
        self.kind.store(kind as u8, Relaxed);
    }

    /// The segment's metadata.
    #[inline]
    pub fn segment(&self) -> &SegmentMeta {
        // SAFETY: a segment's metadata is `SEGMENT_META` bytes at a multiple of that, and starts
        // with the first slot's. `self` is accessible and lies in this range, so the first slot's
        // metadata is accessible, too, and for ever (`arena` rule 4).
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

    /// The arena, and the slot's number in it.
    pub fn slot_in_arena(&self) -> (&'static Arena, usize) {
        arena::of_meta(core::ptr::from_ref(self).addr())
    }

    /// The first byte of the slot.
    pub fn start(&self) -> *mut u8 {
        arena::at(arena::start_of(core::ptr::from_ref(self).addr()))
    }

    /// The first byte of this page, one of whose slots is `slot`; the address `p` lies there.
    /// Quicker than [`Meta::start`], as no arena is looked up.
    #[inline(always)]
    pub fn start_from(&self, p: usize, slot: &Self) -> usize {
        let bytes = core::ptr::from_ref(slot).addr() - core::ptr::from_ref(self).addr();
        (p & !(SLOT - 1)) - bytes / META * SLOT
    }

    /// The arena and the segment's number there.
    pub fn segment_in_arena(&self) -> (&'static Arena, usize) {
        let (arena, slot) = self.slot_in_arena();
        (arena, slot / (SEGMENT / SLOT))
    }

    /// The metadata of the slot `n` further on.
    ///
    /// # Safety
    /// The segment has a slot `n` behind this one.
    #[inline]
    pub unsafe fn forward(&self, n: u32) -> &'static Meta {
        // SAFETY: the metadata of a segment's slots lies side by side, and the caller promises that
        // there is such a slot. The metadata is accessible for ever (`arena` rule 4), and any
        // thread may have a reference to it: all fields are cells or atomics.
        unsafe { &*core::ptr::from_ref(self).wrapping_add(n as usize) }
    }

    /// The first slot of the page, from any of its slots.
    #[inline]
    pub fn head(&self) -> &'static Meta {
        let back = if self.kind() == Kind::Follow { self.back.load(Relaxed) } else { 0 };
        // SAFETY: a slot of kind `Follow` was claimed with a page, and `back` then got the distance
        // to that page's first slot (rule 3). Both slots are of one segment, whose metadata lies
        // side by side and is accessible for ever (`arena` rule 4).
        unsafe { &*core::ptr::from_ref(self).wrapping_sub(usize::from(back)) }
    }

    /// [`Meta::head`] for a slot in which a live block starts. Only the first slot of a page has an
    /// owner (rule 2). So this reads the second line for other slots only.
    #[inline]
    pub fn head_of_block(&'static self) -> &'static Meta {
        if self.owner().is_null() { self.head() } else { self }
    }

    /// A raw pointer, for lists of pages.
    #[inline]
    pub fn raw(&self) -> *mut Meta {
        core::ptr::from_ref(self).cast_mut()
    }

    /// Makes `span` slots from this one a page of `class`, without an owner. The caller has claimed
    /// them.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn open(&self, class: usize, block_size: u32, span: u32, zero: bool) {
        self.list.free.set(null_mut());
        self.list.until_slow.set(0);
        self.park_at.set(0);
        self.holes.set(0);
        self.in_holes.set(0);
        self.is_tail_purged.set(false);
        self.carved.set(0);
        self.cap.set(span * SLOT as u32 / block_size);
        self.block_size.set(block_size);
        self.class.set(class as u8);
        self.state.set(PageState::Queue);
        self.zero.set(zero);
        self.span.store(span, Relaxed);
        self.remote_list.clear();
        self.remote_link.set(null_mut());
        for i in 1..span {
            // SAFETY: the caller has claimed `span` slots from this one, so the segment has them.
            let follow = unsafe { self.forward(i) };
            follow.owner_word.clear();
            follow.holes.set(0);
            follow.back.store(i as u8, Relaxed);
            follow.set_kind(Kind::Follow);
        }
        self.back.store(0, Relaxed);
        self.set_kind(Kind::Page);
        self.owner_word.clear();
    }

    /// [`Meta::open`] for a page of sampled blocks. It has no owner, so frees of its blocks take
    /// the slow path.
    pub fn open_ownerless(&self, class: usize, block_size: u32, span: u32, zero: bool) {
        self.open(class, block_size, span, zero);
        self.set_kind(Kind::Sampled);
    }

    /// The page's length in bytes.
    pub fn bytes(&self) -> usize {
        self.span.load(Relaxed) as usize * SLOT
    }

    /// Ends the page. From now on a free into it is an error that is found (rule 2).
    pub fn close(&self) {
        self.clear_owner();
        if cfg!(debug_assertions) {
            // So a thread that reads it after that, against rule 5, is out of bounds.
            self.class.set(u8::MAX);
        }
        for i in 0..self.span.load(Relaxed) {
            // SAFETY: the page has `span` slots from this one, so the segment has them.
            unsafe { self.forward(i) }.set_kind(Kind::Free);
        }
    }
}

/// The metadata of the slot that `p` points into, in any arena. None: `p` is foreign.
#[inline]
pub fn lookup(p: *mut u8) -> Option<&'static Meta> {
    lookup_first(p).or_else(|| {
        let (arena, slot) = arena::find(p.addr())?;
        // SAFETY: `find` gives a slot of a known arena, whose metadata is readable for ever
        // (`arena` rule 4). All fields are cells or atomics, so any thread may have a reference.
        Some(unsafe { &*arena.meta(slot).cast::<Meta>() })
    })
}

/// [`lookup`] in the first arena only.
#[inline(always)]
pub fn lookup_first(p: *mut u8) -> Option<&'static Meta> {
    let offset = bounds::offset(p.addr())?;
    // SAFETY: `offset` let `p` in, so `p` lies in a slot of the first arena, and the thread that
    // got `p` has synchronised with the one that made the arena. The metadata is readable for ever
    // (`arena` rule 4). All fields are cells or atomics, so any thread may have a reference.
    Some(unsafe { &*bounds::meta((offset >> arena::SLOT_SHIFT) * META) })
}
