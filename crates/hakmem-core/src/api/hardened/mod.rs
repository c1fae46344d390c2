//! The hardened build's way around the front end: it writes what `harden` adds to a block when the
//! block becomes live, and checks it when the block is freed.
//!
//! ```text
//! alloc:  a block for the request and its tag → is it zero? → write tag and pad
//! free:   does a block start here? → tag → pad → the tag of the block before → wipe → quarantine
//! ```
//!
//! Rules
//! 1. Who calls `free`, `realloc` or `usable_size` may be wrong about the pointer. So every word of
//!    the block is checked before it is used, and the metadata says what may be read.
//! 2. A block that did not pass is left alone for ever if the option `ON_ERROR` lets the program go
//!    on.
//! 3. A block in a page with an owner is zero when it comes from the front end, but for its link.
//!    Samples of the profile are wiped when they are allocated. Larger blocks are not.

mod fast;
#[cfg(all(test, feature = "hardened", not(any(loom, shuttle, miri))))]
mod tests;

use crate::api::front::{self, Clear};
use crate::backend::arena::{self, SEGMENT, SLOT};
use crate::backend::check::{self, wrong};
use crate::backend::page::{self, Kind, Meta};
use crate::backend::{foreign, nothing};
use crate::base::size_class::{self, MEDIUM_MAX};
use crate::harden::tag::{self, Origin, Tag};
use crate::harden::{fence, has, quarantine, wipe};
use crate::os;
use crate::policy::{self, Hardened};
use crate::profile;
use crate::program;
use crate::thread::{self, ThreadState};
use core::alloc::Layout;
use core::ptr::null_mut;

/// Slots of a segment.
const SLOTS: usize = SEGMENT / SLOT;

/// True at the level `low`: freed blocks are neither wiped nor do they wait.
#[inline(always)]
fn is_low() -> bool {
    policy::HARDENED.get() == Hardened::Low as u32
}

/// Allocates a block for `size` bytes at a multiple of `align`, a power of two. Returns null with
/// errno ENOMEM if there is no memory.
#[inline(always)]
pub fn alloc(size: usize, align: usize, origin: Origin) -> *mut u8 {
    if align <= 16
        && let Some(p) = fast::alloc(size, origin)
    {
        return p;
    }
    alloc_any(size, align, origin)
}

/// [`alloc`] without the fast way.
#[cold]
#[inline(never)]
fn alloc_any(size: usize, align: usize, origin: Origin) -> *mut u8 {
    if size == 0 && align <= 16 {
        return nothing::alloc().unwrap_or_else(|| alloc_some(0, align, origin));
    }
    alloc_some(size, align, origin)
}

/// [`alloc`] of a block in a page or in slots of its own, whatever the size.
fn alloc_some(size: usize, align: usize, origin: Origin) -> *mut u8 {
    let Some(total) = size.checked_add(tag::BYTES) else { return no_memory() };
    let total = total.max(tag::LEAST_BLOCK);
    let p = if align <= 16 {
        front::alloc16(total)
    } else {
        front::alloc_aligned(total, align, Clear::Nothing)
    };
    let Some(meta) = page::lookup(p) else { return p };
    // SAFETY: the front end has just allocated the block, and nobody else knows it yet.
    unsafe { prepare(p, meta, size, origin) };
    p
}

/// Makes a block from the front end live.
///
/// # Safety
/// It was just allocated, lies in the slot of `meta`, and is large enough for `size` and a tag.
pub unsafe fn prepare(p: *mut u8, meta: &'static Meta, size: usize, origin: Origin) {
    let head = meta.head_of_block();
    // SAFETY: the block is the caller's, and has `room` bytes.
    unsafe {
        if !head.owner().is_null() {
            return make_live(p, head.block_size.get() as usize, size, origin);
        }
        let room = front::size_of_whole(p, meta);
        // A sample of the profile. Of larger blocks only what calloc returns is zero.
        if room <= MEDIUM_MAX {
            wipe::wipe(p, room & !15);
        }
        tag::write(p, room, size, origin);
    }
}

/// Makes a block of a page live: all of it but its link is zero, the tag too.
///
/// # Safety
/// The caller has the block, which has `room` bytes: enough for `size` and a tag.
#[inline(always)]
unsafe fn make_live(p: *mut u8, room: usize, size: usize, origin: Origin) {
    // SAFETY: the block is the caller's, and has `room` bytes.
    unsafe {
        if !fast::is_as_it_was(p, room) {
            overwritten(p, room, 8);
        }
        p.cast::<usize>().write(0);
        tag::write(p, room, size, origin);
    }
}

/// A free block is not as it was left. The program goes on with it, wiped.
#[cold]
#[inline(never)]
unsafe fn overwritten(p: *mut u8, room: usize, from: usize) {
    // SAFETY: the caller has the block, which has `room` bytes.
    let offset = unsafe { wipe::written(p, from, room) }.unwrap_or(room - tag::BYTES);
    wrong(p, format_args!("write after free at offset {offset} of {p:p}, a block of {room} bytes"));
    // SAFETY: the caller has the block, which has `room` bytes.
    unsafe { wipe::wipe(p, room) };
}

/// [`alloc`] of a block whose bytes are zero.
pub fn zeroed(size: usize, align: usize, origin: Origin) -> *mut u8 {
    let Some(total) = size.checked_add(tag::BYTES) else { return no_memory() };
    // An alignment that no class has makes a block large, whatever its size.
    let is_medium =
        total <= MEDIUM_MAX && (align <= 16 || size_class::of_aligned(total, align).is_some());
    if is_medium {
        let p = alloc(size, align, origin);
        let wiped = if is_low() || !has::WIPING { 0 } else { wipe::MOST };
        if size > wiped && !p.is_null() {
            // SAFETY: the block was just allocated, and has `size` bytes.
            unsafe { p.wrapping_add(wiped).write_bytes(0, size - wiped) };
        }
        return p;
    }
    let p = front::alloc_aligned(total, align.max(16), Clear::Block);
    let Some(meta) = page::lookup(p) else { return p };
    // SAFETY: the front end has just allocated the block, and nobody else knows it yet.
    unsafe { prepare(p, meta, size, origin) };
    p
}

/// A live block that passed its checks.
pub struct Live {
    /// Its bytes, with pad and tag.
    pub room: usize,
    /// The bytes that were asked for.
    pub size: usize,
    /// True for a block of a page with an owner.
    in_page: bool,
    /// True for a sample of the profile, and for a block of a program heap.
    is_apart: bool,
}

/// Checks the block at `p`, in the slot of `meta`. None: it did not pass, and that was reported.
///
/// # Safety
/// If a live block starts at `p`, it is the caller's (rule 1).
#[inline(always)]
pub unsafe fn checked(
    p: *mut u8,
    meta: &'static Meta,
    by: Option<(Origin, Option<usize>)>,
) -> Option<Live> {
    let head = meta.head_of_block();
    let in_page = !head.owner().is_null();
    if !in_page && fence::has(p) {
        wrong(p, format_args!("double free or use after free of {p:p}, a large block"));
        return None;
    }
    let room = if in_page {
        let offset = p.addr() - head.start().addr();
        if !size_class::is_start(head.class.get(), offset as u32) {
            check::not_a_block(p, Some(meta));
        }
        head.block_size.get() as usize
    } else {
        front::size_of_whole(p, meta)
    };
    // SAFETY: a block of `room` bytes starts at `p`, in a page or slots that are in use. So its
    // words are readable, whoever has it (rule 1).
    let tag = unsafe { tag::read(p, room) };
    let Tag::Live(size, origin) = tag else {
        bad_tag(p, room, tag);
        return None;
    };
    // SAFETY: the tag says that the block is live, so the caller has it.
    if unsafe { !tag::is_pad_kept(p, room, size) } {
        overflowed(p, room, size);
        return None;
    }
    if has::NEIGHBOUR && in_page && p.addr() >= head.start().addr() + room {
        let before = p.wrapping_sub(room);
        // SAFETY: a block of the page starts there, and its last word is readable.
        if unsafe { tag::read(before, room) } == Tag::Broken {
            wrong(
                p,
                format_args!(
                    "write in front of {p:p}, a block of {size} bytes, or beyond {before:p}"
                ),
            );
            return None;
        }
    }
    if let Some((by, wanted)) = by
        && (by != origin || wanted.is_some_and(|wanted| wanted != size))
    {
        mismatch(p, size, origin, by, wanted);
        return None;
    }
    Some(Live {
        room,
        size,
        in_page,
        is_apart: profile::is_sample(head.kind()) || program::has(head.kind()),
    })
}

#[cold]
#[inline(never)]
fn overflowed(p: *mut u8, room: usize, size: usize) {
    // SAFETY: the tag says that the block is live, so the caller has it.
    let over = unsafe { tag::overflow(p, room, size) };
    wrong(
        p,
        format_args!("overflow by {over} bytes or more behind {p:p}, a block of {size} bytes"),
    );
}

#[cold]
#[inline(never)]
fn bad_tag(p: *mut u8, room: usize, tag: Tag) {
    match tag {
        Tag::Free => wrong(p, format_args!("double free of {p:p}, a block of {room} bytes")),
        _ => wrong(
            p,
            format_args!(
                "overflow at {p:p}, a block of up to {} bytes: its end was overwritten",
                room - tag::BYTES
            ),
        ),
    }
}

#[cold]
#[inline(never)]
fn mismatch(p: *mut u8, size: usize, origin: Origin, by: Origin, wanted: Option<usize>) {
    let what = by.freed_by();
    match (wanted, by.align(), origin.align()) {
        (Some(wanted), ..) if by == origin => {
            wrong(
                p,
                format_args!("wrong size {wanted} at {what} of {p:p}, a block of {size} bytes"),
            );
        }
        (_, Some(wanted), Some(align)) => {
            wrong(
                p,
                format_args!(
                    "wrong alignment {wanted} at {what} of {p:p}, a block with the alignment {align}"
                ),
            );
        }
        _ => wrong(
            p,
            format_args!("{what} of {p:p}, a block of {size} bytes from {}", origin.made_by()),
        ),
    }
}

/// Frees the block at `p`. `size` is what the caller says of its size, if it does. Pointers that
/// are not ours go the way of every build.
///
/// # Safety
/// If `p` is ours, it is live and the caller's to free (rule 1).
#[inline(always)]
pub unsafe fn free(p: *mut u8, by: Origin, size: Option<usize>) {
    // SAFETY: the caller says that `p`, if it is ours, is live and given up. The fast way gives the
    // block up only if it answers true, so one of the two does.
    unsafe {
        if !fast::free(p, by, size) {
            free_any(p, by, size);
        }
    }
}

/// [`free`] without the fast way.
///
/// # Safety
/// As [`free`].
#[cold]
#[inline(never)]
unsafe fn free_any(p: *mut u8, by: Origin, size: Option<usize>) {
    let Some(meta) = page::lookup(p) else {
        // SAFETY: `p` is null or not ours.
        return unsafe { front::free16(p) };
    };
    // SAFETY: the caller gives up a live block. If it is wrong, the checks find that.
    unsafe {
        let Some(live) = checked(p, meta, Some((by, size))) else { return };
        give_up(p, &live);
    }
}

/// Wipes a block and lets it wait, or frees it.
///
/// # Safety
/// The block is live, passed its checks, and the caller gives it up.
unsafe fn give_up(p: *mut u8, live: &Live) {
    // A sample that waited would be live for the profile, and a block of a program heap for its
    // limit.
    if live.room > MEDIUM_MAX && !live.is_apart && !is_low() {
        // SAFETY: the block is this call's, or was an earlier one's that has just left its fence.
        return fence::put(p, live.room, |leaves| unsafe { front::free16(leaves) });
    }
    // SAFETY: the block is this call's. What leaves the quarantine was some thread's block before,
    // and is nobody's now.
    unsafe {
        tag::clear(p, live.room);
        // The quarantine is for blocks of pages with owners: a sample is not one.
        if is_low() || !live.in_page {
            return front::free16(p);
        }
        if has::WIPING {
            wipe::wipe(p, live.room);
        }
        if live.room <= quarantine::LARGEST
            && let ThreadState::Live(heap) = thread::state()
        {
            let leaves = heap.quarantine.swap(p);
            if !leaves.is_null() {
                leave(leaves);
            }
            return;
        }
        front::free16(p);
    }
}

/// Frees a block that has waited.
///
/// # Safety
/// It has just left the quarantine of the calling thread.
#[inline(always)]
unsafe fn leave(p: *mut u8) {
    // SAFETY: the block was some call's that gave it up, and is nobody's now.
    unsafe {
        if p.cast::<usize>().read() != 0 {
            check_waited(p, 8);
        }
        front::free16(p);
    }
}

/// Checks that nobody wrote to the first `bytes` of a block while it waited. The first word is a
/// link next. The others are checked when the block is handed out.
///
/// # Safety
/// The block waited in the quarantine of this thread.
unsafe fn check_waited(p: *mut u8, bytes: usize) {
    if !has::CHECK {
        return;
    }
    let Some(meta) = page::lookup(p) else { return };
    let room = meta.head_of_block().block_size.get() as usize;
    // SAFETY: the block is this thread's, and has `room` bytes.
    unsafe {
        if wipe::written(p, 0, bytes.min(room)).is_some() {
            overwritten(p, room, 0);
        }
    }
}

/// Live blocks that are checked at the end of the process.
const AT_EXIT: usize = 100_000;

/// Checks what waits in the calling thread's quarantine, at the end of the process. If the process
/// has no other thread, checks what lies behind live blocks, too. O(`AT_EXIT`).
pub fn check_at_exit() {
    if let ThreadState::Live(heap) = thread::state() {
        // SAFETY: the blocks are this thread's.
        heap.quarantine.blocks().for_each(|p| unsafe { check_waited(p, usize::MAX) });
    }
    if !os::is_single_threaded() {
        return;
    }
    let mut left = AT_EXIT;
    for arena in arena::all() {
        for slot in
            arena.used().flat_map(|segment| (0..SLOTS).map(move |slot| segment * SLOTS + slot))
        {
            // SAFETY: a used segment has metadata, which is accessible for ever.
            check_slot(unsafe { &*arena.meta(slot).cast::<Meta>() }, &mut left);
            if left == 0 {
                return;
            }
        }
    }
}

/// Checks the ends of the live blocks that begin in the slot.
fn check_slot(meta: &'static Meta, left: &mut usize) {
    let (room, count) = match meta.kind() {
        Kind::Page if !meta.owner().is_null() => {
            (meta.block_size.get() as usize, meta.carved.get() as usize)
        }
        Kind::Large | Kind::Huge if !fence::has(meta.start()) => {
            (front::size_of_whole(meta.start(), meta), 1)
        }
        _ => return,
    };
    for p in (0..count.min(*left)).map(|i| meta.start().wrapping_add(i * room)) {
        *left -= 1;
        // SAFETY: a block of `room` bytes was carved there, or is a large one. The process has one
        // thread, so nobody changes it.
        match unsafe { tag::read(p, room) } {
            Tag::Free => {}
            Tag::Broken => bad_tag(p, room, Tag::Broken),
            Tag::Live(size, _) => {
                // SAFETY: the tag says so.
                if unsafe { !tag::is_pad_kept(p, room, size) } {
                    overflowed(p, room, size);
                }
            }
        }
    }
}

/// Changes the size of the block at `p`, which is not null, to `size`, which is not 0. Returns null
/// with errno ENOMEM if there is no memory: then nothing has changed.
///
/// # Safety
/// `p` is a live block of this or of the next allocator, and the caller's (rule 1).
pub unsafe fn realloc(p: *mut u8, size: usize) -> *mut u8 {
    let Some(meta) = page::lookup(p) else {
        if nothing::has(p) {
            return nothing::replace(p, alloc(size, 16, Origin::C));
        }
        // SAFETY: `p` is not ours. So it is the next allocator's.
        return unsafe { foreign::realloc(p, size).unwrap_or_else(no_memory) };
    };
    // SAFETY: the caller says that `p` is a live block of its own. `checked` reads the metadata and
    // the tag, and returns a block only if both are sound. Nobody else writes the tag until
    // `resize` does.
    unsafe {
        let Some(live) = checked(p, meta, None) else { return no_memory() };
        let Tag::Live(_, origin) = tag::read(p, live.room) else { return no_memory() };
        resize(p, &live, size, 16, origin)
    }
}

/// Changes the size of a block that passed its checks.
///
/// # Safety
/// The block is live and the caller's.
unsafe fn resize(p: *mut u8, live: &Live, size: usize, align: usize, origin: Origin) -> *mut u8 {
    let Some(total) = size.checked_add(tag::BYTES) else { return no_memory() };
    // SAFETY: the block is live, the caller's, and has `room` bytes. A new one has `size`.
    unsafe {
        let total = total.max(tag::LEAST_BLOCK);
        // Of an aligned block the request may be less than half.
        if front::fits(live.room, total) || size == live.size {
            forget_end(p, live, size);
            tag::write(p, live.room, size, origin);
            return p;
        }
        // A block that the system did not let shrink keeps its length, perhaps too many bytes for
        // its tag: then it moves.
        if let Some(at) = front::resize(p, live.room, total, align)
            && let room = front::size_of_block(at).unwrap_or(total)
            && room - total <= u32::MAX as usize
        {
            forget_end(at, live, size);
            tag::write(at, room, size, origin);
            return at;
        }
        let to = alloc(size, align, origin);
        if !to.is_null() {
            to.copy_from_nonoverlapping(p, live.size.min(size));
            give_up(p, live);
            return to;
        }
        // A block that shall shrink can stay. A tag tells so many bytes behind the request at most.
        if size <= live.size && live.room - size <= u32::MAX as usize {
            tag::write(p, live.room, size, origin);
            return p;
        }
        to
    }
}

/// Zeroes the pad and the tag that lie in a block which has grown in its place to `size` bytes.
/// They tell of the secret.
///
/// # Safety
/// The block at `p` was `live`, is the caller's, and has `size` bytes.
pub unsafe fn forget_end(p: *mut u8, live: &Live, size: usize) {
    for at in [live.size, live.room - tag::BYTES] {
        let len = size.saturating_sub(at).min(tag::BYTES);
        // SAFETY: these bytes end at `size` at the latest.
        unsafe { p.wrapping_add(at).write_bytes(0, len) };
    }
}

/// [`alloc`] for a layout of Rust.
pub fn alloc_layout(layout: Layout) -> *mut u8 {
    alloc(layout.size(), layout.align(), Origin::rust(layout.align()))
}

/// [`zeroed`] for a layout of Rust.
pub fn zeroed_layout(layout: Layout) -> *mut u8 {
    zeroed(layout.size(), layout.align(), Origin::rust(layout.align()))
}

/// [`free`] of a block that was allocated with `layout`.
///
/// # Safety
/// The block is live and the caller's to free (rule 1).
pub unsafe fn free_layout(p: *mut u8, layout: Layout) {
    // SAFETY: the caller gives up a live block.
    unsafe { free(p, Origin::rust(layout.align()), Some(layout.size())) }
}

/// [`realloc`] of a block that was allocated with `layout`.
///
/// # Safety
/// The block is live and the caller's (rule 1).
pub unsafe fn realloc_layout(p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let Some(meta) = page::lookup(p) else { check::not_a_block(p, None) };
    // SAFETY: the caller has a live block. If it is wrong, the checks find that.
    unsafe {
        let origin = Origin::rust(layout.align());
        let by = (origin, Some(layout.size()));
        let Some(live) = checked(p, meta, Some(by)) else { return no_memory() };
        resize(p, &live, size, layout.align(), origin)
    }
}

/// The bytes that were asked for with the block at `p`. 0 for a pointer that is no block.
///
/// # Safety
/// `p` is a live block of this or of the next allocator (rule 1).
pub unsafe fn usable_size(p: *mut u8) -> usize {
    let Some(meta) = page::lookup(p) else {
        // SAFETY: `p` is not ours. So it is the next allocator's.
        return unsafe { foreign::usable_size(p) };
    };
    // SAFETY: the caller has a live block. If it is wrong, the checks find that.
    unsafe { checked(p, meta, None).map_or(0, |live| live.size) }
}

fn no_memory() -> *mut u8 {
    os::set_enomem();
    null_mut()
}
