//! realloc: a block that passed its checks changes its size, in its place or by a move.
//!
//! Rules
//! 1. hakmem writes the tag anew for the new size. In a block that grows in its place, the old pad
//!    and the old tag become zero.

use super::alloc::alloc;
use super::checked::{Live, checked};
use super::free::give_up;
use super::no_memory;
use crate::api::front;
use crate::backend::page;
use crate::backend::{foreign, nothing};
use crate::harden::tag::{self, Origin, Tag};

/// Changes the size of the block at `p`, which is not null, to `size`, which is not 0. Returns null
/// with errno ENOMEM if there is no memory: then nothing has changed.
///
/// # Safety
/// `p` is a live block of this or of the next allocator, and the caller's (`hardened` rule 1).
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
pub(super) unsafe fn resize(
    p: *mut u8,
    live: &Live,
    size: usize,
    align: usize,
    origin: Origin,
) -> *mut u8 {
    let Some(total) = size.checked_add(tag::BYTES) else { return no_memory() };
    // SAFETY: the block is live, the caller's, and has `room` bytes. A new one has `size`.
    unsafe {
        let total = total.max(tag::LEAST_BLOCK);
        // Of an aligned block the request may be less than half.
        if front::fits(live.room, total) || size == live.size {
            forget_end(p, live, size);
            tag::rewrite(p, live.room, size, origin);
            return p;
        }
        if let Some(at) = resize_in_place(p, live, size, align, origin) {
            return at;
        }
        let to = alloc(size, align, origin);
        if !to.is_null() {
            to.copy_from_nonoverlapping(p, live.size.min(size));
            give_up(p, live);
            return to;
        }
        // A block that is to shrink can stay. A tag tells so many bytes behind the request at most.
        if size <= live.size && live.room - size <= u32::MAX as usize {
            tag::rewrite(p, live.room, size, origin);
            return p;
        }
        // The failed allocation has given back what was free.
        resize_in_place(p, live, size, align, origin).unwrap_or(to)
    }
}

/// [`resize`] without a copy of the contents. None: nothing has changed, but that a block which is
/// to shrink may have less room.
///
/// # Safety
/// As [`resize`].
unsafe fn resize_in_place(
    p: *mut u8,
    live: &Live,
    size: usize,
    align: usize,
    origin: Origin,
) -> Option<*mut u8> {
    let total = size.checked_add(tag::BYTES)?.max(tag::LEAST_BLOCK);
    // SAFETY: the block is live, the caller's, and has `room` bytes.
    unsafe {
        let at = front::resize(p, live.room, total, align)?;
        let room = front::size_of_block(at).unwrap_or(total);
        // A block that the system did not let shrink keeps its length, perhaps too many bytes for
        // its tag: then it moves.
        if room - total > u32::MAX as usize {
            return None;
        }
        forget_end(at, live, size);
        tag::rewrite(at, room, size, origin);
        Some(at)
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
