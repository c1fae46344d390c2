//! Errors of the program that hakmem detects: one clear line on standard error, then abort. Behind
//! it stand the page or large block that the pointer lies in, the thread, and its stack.
//!
//! But for those of links, which malloc makes itself (`links`), these checks cost the fast paths
//! nothing. They find:
//! - a pointer outside every arena (`foreign`),
//! - a pointer at which no block can start,
//! - a block of a page that has no used blocks,
//! - a list that does not add up when its owner changes. This finds blocks that were freed twice,
//!   and links that were overwritten after a free.

mod links;

use crate::backend::arena::{self, SEGMENT, SLOT};
use crate::backend::page::{self, Block, Kind, Meta, glance};
use crate::base::size_class;
use crate::base::sync::Ordering::Relaxed;
use crate::harden::to_tell::Written;
use crate::harden::{self, tag, wipe};
use crate::os::{self, detail, report};
use crate::policy::{self, OnError};
use crate::proto::inbox::Link;
use core::fmt::Arguments;

pub use links::{
    check_link, check_link_of, check_program_link, is_circle, is_link_in_page, is_link_to,
    is_plain_link, is_sound,
};

/// True if hakmem checks for errors of the program. The feature `bench-fast` makes it false, for
/// measurements of what the checks cost. Every check that the feature leaves out depends on this
/// constant, and nothing else does.
pub const CHECKED: bool = !cfg!(feature = "bench-fast");

/// Reports an error of the program at `p`, and ends the process if the option `ON_ERROR` says so.
#[cold]
#[inline(never)]
pub fn wrong(p: *mut u8, what: Arguments<'_>) {
    tell(what, || show_place(p));
}

/// [`wrong`] for a write that is found later, by a call that did not write. The report says so: its
/// stack is that of this call.
#[cold]
#[inline(never)]
pub fn written_before(p: *mut u8, what: Arguments<'_>) {
    tell(what, || {
        show_place(p);
        detail(format_args!("the write was earlier: the stack is that of the call that found it"));
    });
}

/// A free block is not as it was left. The program goes on with it, wiped.
///
/// # Safety
/// The caller has the block, which has `room` bytes.
#[cold]
#[inline(never)]
pub unsafe fn overwritten(p: *mut u8, room: usize, from: usize) {
    // SAFETY: the caller has the block, which has `room` bytes.
    let offset = unsafe { first_written(p, room, from) };
    tell_written(Written { block: p, room, offset });
    // SAFETY: the caller has the block, which has `room` bytes.
    unsafe { wipe::wipe(p, room) };
}

/// The offset of the first byte of a free block, from `from` on, that is not as it was.
///
/// # Safety
/// The caller has the block, which has `room` bytes.
#[cold]
unsafe fn first_written(p: *mut u8, room: usize, from: usize) -> usize {
    // Where free blocks are not wiped, only the tag says so.
    let is_wiped = harden::has::CHECK && !harden::is_low();
    // SAFETY: the caller has the block, which has `room` bytes.
    let written = is_wiped.then(|| unsafe { wipe::written(p, from, room) });
    written.flatten().unwrap_or(room - tag::BYTES)
}

/// Reports a write after a free.
#[cold]
#[inline(never)]
pub fn tell_written(Written { block, room, offset }: Written) {
    written_before(
        block,
        format_args!("write after free at offset {offset} of {block:p}, a block of {room} bytes"),
    );
}

/// In the hardened build: the first block of an ended page that somebody wrote to. The page will be
/// wiped before it is used again. O(bytes of the page).
///
/// # Safety
/// The page is empty and closed, nobody has used its memory since, and its slot is the caller's.
pub unsafe fn written_in(page: &Meta) -> Option<Written> {
    let (room, count) = (page.block_size.get() as usize, page.carved.get() as usize);
    if !harden::ON || !harden::has_all(page.start(), room * count) {
        return None;
    }
    let mut blocks = (0..count).map(|i| page.start().wrapping_add(i * room));
    // SAFETY: each of these blocks was carved and is free. So it is as its free or its carving left
    // it, and nobody else uses it.
    unsafe {
        let block = blocks.find(|&p| !harden::is_as_it_was(p, room))?;
        Some(Written { block, room, offset: first_written(block, room, 8) })
    }
}

/// [`not_a_block`] for what a free put onto a list before: the stack is not that of the free.
#[cold]
#[inline(never)]
pub fn freed_before(p: *mut u8, slot: &Meta) -> ! {
    if !matches!(slot.kind(), Kind::Page | Kind::Follow) {
        not_a_block(p, Some(slot));
    }
    inside_page(p, slot, || {
        show_place(p);
        detail(format_args!(
            "the free may have been earlier, or the program wrote to a freed block: \
             the stack is that of the call that found it"
        ));
    })
}

/// Reports that `p` lies in the page of `slot`, and that no live block starts there. Ends the
/// process if the option `ON_ERROR` says so.
#[cold]
#[inline(never)]
pub fn no_start(p: *mut u8, slot: &Meta) {
    say_inside(p, slot, |what| wrong(p, what));
}

/// `p` lies in the page of `slot`, and no live block starts there.
#[cold]
fn inside_page(p: *mut u8, slot: &Meta, details: impl FnOnce()) -> ! {
    say_inside(p, slot, |what| os::fatal_about(what, details))
}

/// Gives `say` the line of a pointer into a page that is no block's start.
#[cold]
fn say_inside<R>(p: *mut u8, slot: &Meta, say: impl FnOnce(Arguments<'_>) -> R) -> R {
    say(format_args!(
        "invalid pointer {p:p}: inside a page of {}-byte blocks, not at the start of a live one",
        slot.head().block_size.glance()
    ))
}

/// Reports an error with `details`, and ends the process if the option `ON_ERROR` says so.
#[cold]
fn tell(what: Arguments<'_>, details: impl FnOnce()) {
    match policy::ON_ERROR.get() {
        on if on == OnError::Ignore as u32 => {}
        on if on == OnError::Report as u32 => {
            report(what);
            details();
            os::show_more();
        }
        _ => os::fatal_about(what, details),
    }
}

/// Reports an error of the program at `p`, and ends the process.
#[cold]
#[inline(never)]
fn fatal(p: *mut u8, what: Arguments<'_>) -> ! {
    os::fatal_about(what, || show_place(p))
}

/// The metadata that says what `meta`'s slot is: of a further slot of a large or huge block, whose
/// own metadata does not say so, that of the first. O(slots in front of it).
#[cold]
fn telling(meta: &Meta) -> &Meta {
    // The metadata of a tail, which another thread may give up, says nothing.
    if !meta.is(Kind::Free) || !arena::is_for_ever(meta.start().addr()) {
        return meta;
    }
    let (arena, slot) = meta.slot_in_arena();
    // In a segment with a huge block the first slot alone says so.
    let segment = slot / SLOTS;
    let before = (0..segment).rev().map(|segment| segment * SLOTS);
    for first in (segment * SLOTS..slot).rev().chain(before) {
        // SAFETY: the slot lies in front of one whose metadata is readable for ever, in the same
        // arena, and groups come into use in their order: so its own is, too (`arena` rule 4). All
        // fields are cells or atomics.
        let head = unsafe { &*arena.meta(first).cast::<Meta>() };
        let span = head.span.load(Relaxed) as usize;
        let slots = match head.kind() {
            Kind::Free => continue,
            Kind::Large | Kind::SampledLarge | Kind::ProgramLarge => span,
            Kind::Huge | Kind::SampledHuge | Kind::ProgramHuge => span * SLOTS,
            Kind::Page | Kind::Follow | Kind::Sampled | Kind::ProgramPage => 0,
        };
        return if slot < first + slots { head } else { meta };
    }
    meta
}

/// The slots of a segment.
const SLOTS: usize = SEGMENT / SLOT;

/// Writes what the metadata says of the page or large block that `p` lies in.
#[cold]
fn show_place(p: *mut u8) {
    let Some(meta) = page::lookup(p) else { return };
    let meta = telling(meta);
    let head = meta.head();
    let start = head.start();
    match meta.kind() {
        Kind::Page | Kind::Follow | Kind::ProgramPage => {
            let page = glance::page(head);
            detail(format_args!(
                "{p:p} is byte {} of the page at {start:p}, of blocks of {} bytes (class {}): \
                 {} of {} are used",
                p.addr() - start.addr(),
                page.size,
                page.class,
                page.used,
                page.blocks
            ));
        }
        Kind::Sampled => {
            let page = glance::page(head);
            detail(format_args!(
                "{p:p} lies in the page at {start:p}, of sampled blocks of {} bytes",
                page.size
            ));
        }
        Kind::Large | Kind::SampledLarge | Kind::ProgramLarge => {
            let slots = head.span.load(Relaxed) as usize;
            detail(format_args!(
                "{p:p} lies in the large block of {} bytes at {start:p}",
                slots * SLOT
            ));
        }
        Kind::Huge | Kind::SampledHuge | Kind::ProgramHuge => {
            let segments = head.span.load(Relaxed) as usize;
            detail(format_args!(
                "{p:p} lies in the huge block of {} bytes at {start:p}",
                segments * SEGMENT
            ));
        }
        Kind::Free => {
            detail(format_args!("{p:p} lies in the slot at {start:p}, which has no block"))
        }
    }
}

/// The program freed `p`, a block of `page`, although it is free.
#[cold]
#[inline(never)]
pub fn double_free(p: *mut u8, page: &Meta) -> ! {
    fatal(p, format_args!("double free of {p:p}, a block of {} bytes", page.block_size.get()))
}

/// The program freed `block`, which is on a list of free blocks, although it is free.
#[cold]
#[inline(never)]
pub fn freed_twice(block: *mut Block) -> ! {
    match page::lookup(block.cast()) {
        Some(slot) => double_free(block.cast(), slot.head_of_block()),
        None => corrupt(block.cast()),
    }
}

/// Ends the process if `p` is the block that was freed last in `page`, a page of this thread, or
/// `first`, the first block of the heap's list.
#[inline(always)]
pub fn check_not_free(p: *mut u8, page: &Meta, first: *mut Block) {
    if CHECKED && (page.list.free.get() == p.cast() || first == p.cast()) {
        used_after_free(p, page);
    }
}

#[cold]
#[inline(never)]
fn used_after_free(p: *mut u8, page: &Meta) -> ! {
    fatal(p, format_args!("use after free of {p:p}, a block of {} bytes", page.block_size.get()))
}

/// A list does not add up. `p` is the place in it.
#[cold]
#[inline(never)]
pub fn corrupt(p: *mut u8) -> ! {
    fatal(
        p,
        format_args!(
            "corrupt free list at {p:p}: a block was freed twice or written to after it was freed"
        ),
    )
}

/// `p` points into an arena but is no live block there.
#[cold]
#[inline(never)]
pub fn not_a_block(p: *mut u8, meta: Option<&Meta>) -> ! {
    let Some(meta) = meta else {
        fatal(
            p,
            format_args!(
                "invalid pointer {p:p}: inside the arena, in memory that was never handed out"
            ),
        );
    };
    let meta = telling(meta);
    match meta.kind() {
        Kind::Free => fatal(
            p,
            format_args!("invalid pointer {p:p}: nothing is allocated there (double free?)"),
        ),
        Kind::Page | Kind::Follow | Kind::Sampled | Kind::ProgramPage => {
            inside_page(p, meta, || show_place(p))
        }
        Kind::Large
        | Kind::Huge
        | Kind::SampledLarge
        | Kind::SampledHuge
        | Kind::ProgramLarge
        | Kind::ProgramHuge => fatal(
            p,
            format_args!(
                "invalid pointer {p:p}: inside the allocation that starts at {:p}",
                meta.start()
            ),
        ),
    }
}

/// True if a block of `page` starts at `p`, which lies in the page.
#[inline(always)]
fn is_start(p: *mut u8, page: &Meta) -> bool {
    size_class::is_start(page.class.get(), (p.addr() - page.start().addr()) as u32)
}

/// Ends the process if no block of `page` starts at `block`, which lies there. For short slow
/// paths: for pages of several slots it checks only what blocks of all sizes have in common.
#[inline(always)]
pub fn check_start(block: *mut Block, page: &Meta) {
    if !may_start(block, page.class.get()) {
        not_a_block(block.cast(), Some(page));
    }
}

/// False if no block starts at `block`, which lies in a page of `class`: what [`check_start`] asks.
#[inline(always)]
pub fn may_start(block: *mut Block, class: u8) -> bool {
    !CHECKED || size_class::may_start(class, (block.addr() % SLOT) as u32)
}

/// Ends the process if `p` lies in a page of blocks and no block starts at it.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn check_any(p: *mut u8) {
    if CHECKED && let Some(meta) = page::lookup(p) {
        let head = meta.head_of_block();
        if !head.owner().is_null() && !is_start(p, head) {
            not_a_block(p, Some(meta));
        }
    }
}

/// Ends the process if no block of `page` starts at `block`, or if one does that is free for
/// certain. The page is a program heap's, whose lock the caller has.
pub fn check_program_block(block: *mut Block, page: &Meta) {
    if !CHECKED {
        return;
    }
    if !is_start(block.cast(), page) {
        not_a_block(block.cast(), Some(page));
    }
    if page.list.free.get() == block || page.list.until_slow.get() == 0 {
        double_free(block.cast(), page);
    }
    check_carved(block, page);
}

/// The program freed or resized `p` by a heap that it is not of.
#[cold]
#[inline(never)]
pub fn not_of_heap(p: *mut u8) -> ! {
    fatal(
        p,
        format_args!(
            "invalid pointer {p:p}: no block of the program heap that shall free or resize it"
        ),
    )
}

/// The program used a program heap that it had deleted.
#[cold]
#[inline(never)]
pub fn deleted_heap(heap: *mut u8) -> ! {
    fatal(heap, format_args!("use of the program heap {heap:p} after it was deleted"))
}

/// True if a block of `page` that was carved starts at `block`. Any thread may ask. If the page is
/// not the caller's, its words may be of different moments, and so the answer is right or wrong.
pub fn is_block_of(page: &Meta, block: *mut Block) -> bool {
    Carved::of(page).has(block)
}

/// Where the carved blocks of a page start. A loop over blocks of a page asks this in place of
/// [`is_block_of`], which finds the page's start anew for each block. Right while no block of the
/// page is carved.
#[derive(Clone, Copy)]
pub struct Carved {
    /// The address of the page.
    start: usize,
    /// The bytes that are carved.
    length: usize,
    class: u8,
}

impl Carved {
    /// Reads the words of `page`.
    pub fn of(page: &Meta) -> Self {
        Self::from(page.start().addr(), page)
    }

    /// [`Carved::of`] of the page that `block` lies in: quicker where that has one slot.
    #[inline(always)]
    pub fn around(page: &Meta, block: *mut Block) -> Self {
        let slot = block.addr() & !(SLOT - 1);
        Self::from(if page.span.load(Relaxed) == 1 { slot } else { page.start().addr() }, page)
    }

    #[inline(always)]
    fn from(start: usize, page: &Meta) -> Self {
        Self {
            start,
            length: page.carved.glance() as usize * page.block_size.glance() as usize,
            class: page.class.glance(),
        }
    }

    /// True if a carved block starts at `block`.
    #[inline(always)]
    pub fn has(self, block: *mut Block) -> bool {
        let offset = block.addr().wrapping_sub(self.start);
        offset < self.length && size_class::is_start(self.class, offset as u32)
    }
}

/// Ends the process if `block` was never carved. It is the start of a block of `page`, which the
/// caller owns.
#[inline(always)]
pub fn check_carved(block: *mut Block, page: &Meta) {
    if CHECKED
        && block.addr() - page.start().addr()
            >= (page.carved.get() * page.block_size.get()) as usize
    {
        never_carved(block.cast());
    }
}

/// The program freed `p`, a place of a block of 0 bytes that it does not have.
#[cold]
#[inline(never)]
pub fn no_zero_block(p: *mut u8) -> ! {
    fatal(p, format_args!("invalid pointer {p:p}: no block of 0 bytes starts there (double free?)"))
}

#[cold]
#[inline(never)]
fn never_carved(p: *mut u8) -> ! {
    fatal(p, format_args!("invalid pointer {p:p}: that block was never handed out"))
}

/// Counts a list of blocks of `page`. Ends the process if it has more blocks than were carved, or a
/// link that leads to no block's start.
///
/// # Safety
/// The list is the calling thread's, and of blocks of `page`.
pub unsafe fn count(list: *mut Block, page: &Meta) -> u32 {
    let (mut block, mut length) = (list, 0);
    let carved = Carved::of(page);
    while !block.is_null() {
        if CHECKED && (length == page.carved.get() || !carved.has(block)) {
            corrupt(block.cast());
        }
        // SAFETY: `Carved::has` said that a carved block starts here, so its first word is
        // accessible. Without checks (`CHECKED` is false) the program must have made no error.
        block = unsafe { Block::next(block) };
        length += 1;
    }
    length
}

/// Checks the beginning of a list of `length` blocks whose owner changes. Finds a block that was
/// freed twice in a row, or twice with one free between, and a link of the first two blocks that
/// leads out of the segment. False: one of these links ends the list too early.
///
/// # Safety
/// The list belongs to the calling thread, is not empty, and has blocks of `page` only.
#[inline(always)]
#[must_use]
pub unsafe fn peek(list: *mut Block, length: i32, page: &Meta) -> bool {
    if !CHECKED {
        return true;
    }
    // SAFETY: the blocks of the list are free and belong to this thread, so it may read their first
    // words. A link is null or leads to a further block of the list.
    unsafe {
        let second = Block::next(list);
        if second.is_null() {
            return length <= 1;
        }
        if !is_near(list, second) {
            corrupt(list.cast());
        }
        let third = Block::next(second);
        if second == list || third == list {
            double_free(list.cast(), page);
        }
        if third.is_null() {
            return length <= 2;
        }
        if !is_near(list, third) {
            corrupt(second.cast());
        }
    }
    true
}

/// True if both blocks lie in one segment.
#[inline(always)]
pub fn is_near(a: *mut Block, b: *mut Block) -> bool {
    (a.addr() ^ b.addr()) < SEGMENT
}

/// Walks a list whose owner changes. Ends the process unless it is `length` blocks of `page` and
/// then ends. Finds a block that was freed twice or never carved, a pointer into a block, and a
/// link that was overwritten since the last walk.
///
/// # Safety
/// The list is the calling thread's.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn walk(list: *mut Block, length: i32, page: &Meta) {
    if !CHECKED {
        return;
    }
    let blocks = Carved::of(page);
    let mut block = list;
    for _ in 0..length {
        if !blocks.has(block) {
            corrupt(block.cast());
        }
        // SAFETY: a block starts at this offset, below the carved bytes, as the check above found.
        // So its first word is accessible.
        block = unsafe { Block::next(block) };
    }
    if length <= 0 || !block.is_null() {
        corrupt(list.cast());
    }
}
