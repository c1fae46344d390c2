//! Allocation: a block gets its tag and its pad, and must be as its free left it.
//!
//! Rules
//! 1. A block in a page with an owner is zero when it comes from the front end, but for its link
//!    and its mark (`hardened` rule 3). What is not zero was written after its free.

use super::{fast, no_memory};
use crate::api::front::{self, Clear};
use crate::backend::check;
use crate::backend::nothing;
use crate::backend::page::{self, Meta};
use crate::base::size_class::{self, MEDIUM_MAX};
use crate::harden::tag::{self, Origin};
use crate::harden::{self, has, is_low, wipe};

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
    if align <= 16
        && let Some(p) = fast::alloc_long(size, origin).or_else(|| fast::alloc_large(size, origin))
    {
        return p;
    }
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

/// Makes a block of a page live: all of it but its link and its mark is zero, the tag too.
///
/// # Safety
/// The caller has the block, which has `room` bytes: enough for `size` and a tag.
unsafe fn make_live(p: *mut u8, room: usize, size: usize, origin: Origin) {
    // SAFETY: the block is the caller's, and has `room` bytes.
    unsafe {
        if !harden::is_as_it_was(p, room) {
            check::overwritten(p, room, 8);
        }
        fast::become_live(p, room, size, origin);
    }
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
