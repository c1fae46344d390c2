//! Frees of blocks that no heap's pages have: large and huge blocks, samples of the profile, blocks
//! of program heaps, and blocks in guarded places.
//!
//! ```text
//! free_whole ──┬── free_large ──── after_free_large, free_large_later
//!              ├── free_huge
//!              └── free_sampled ── free_of
//! ```
//!
//! The rules are those of [`free`](super::free).

use super::alloc::{kept_huge, node};
use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::nodes;
use crate::backend::page::{Kind, Meta};
use crate::heap::{FreedLarge, Heap};
use crate::large::{self, huge};
use crate::profile::{self, Freed};
use crate::program::{self, ProgramHeap};
use crate::thread::{self, ThreadState};
use crate::{guard, purge};

/// Frees a large block into the cache of the thread's heap. Part of its callers, which need no
/// frame for it: they jump to the rest.
///
/// # Safety
/// A live large block starts at `p`, in the slot of `meta`. It is the caller's to free.
#[inline(always)]
pub unsafe fn free_large(p: *mut u8, meta: &'static Meta, heap: &'static Heap) {
    // SAFETY: the caller gives up a live large block, which starts at `p`.
    match unsafe { heap.free_large(p, meta) } {
        FreedLarge::Kept => {}
        // SAFETY: `free_large` has just said whether it keeps this block.
        FreedLarge::Due => unsafe { after_free_large(true, meta, heap) },
        // SAFETY: `free_large` has just said that it does not keep this block.
        FreedLarge::NoRoom => unsafe { after_free_large(false, meta, heap) },
        // SAFETY: nothing has changed, so the block is live and the caller's.
        FreedLarge::Paused => unsafe { free_large_later(p, meta, heap) },
    }
}

/// What is left to do after [`Heap::free_large`].
///
/// # Safety
/// As [`Heap::after_free_large`].
#[cold]
#[inline(never)]
unsafe extern "C" fn after_free_large(is_kept: bool, meta: &'static Meta, heap: &'static Heap) {
    // SAFETY: by the caller's promise `free_large` said so of this block.
    if unsafe { heap.after_free_large(meta, is_kept) } {
        purge::tick();
    }
}

/// [`free_large`] when the purge keeps the holder out.
///
/// # Safety
/// As [`free_large`].
#[cold]
#[inline(never)]
unsafe extern "C" fn free_large_later(p: *mut u8, meta: &'static Meta, heap: &'static Heap) {
    heap.wait_for_purge();
    // SAFETY: the caller gives up a live large block, which starts at `p`.
    unsafe { free_large(p, meta, heap) };
}

/// Frees a large, a huge or a sampled block, in the slot of `meta`.
///
/// # Safety
/// As [`free16`](super::free16); `p` is ours, and its slot is no page's that has an owner.
#[inline(never)]
pub unsafe extern "C" fn free_whole(p: *mut u8, meta: &'static Meta) {
    // A block of whole slots starts where its first slot does; the other slots have no kind.
    let kind = if p.addr().is_multiple_of(SLOT) { meta.kind() } else { Kind::Free };
    // SAFETY: a block of that kind starts at `p`. It is live and given up (`free` rule 1).
    let released = unsafe {
        match (kind, thread::state()) {
            (Kind::Large, ThreadState::Live(heap)) => return free_large(p, meta, heap),
            (Kind::Large, _) => {
                large::free(meta);
                true
            }
            (Kind::Huge, _) => free_huge(meta),
            _ => return free_sampled(p, meta),
        }
    };
    if released {
        purge::tick();
    }
}

/// Frees a huge block. True if it had any bytes. A function of its own, so that a large block needs
/// no frame for it.
///
/// # Safety
/// It is a live huge block and the caller's to free.
#[inline(never)]
unsafe fn free_huge(meta: &'static Meta) -> bool {
    // SAFETY: the caller gives up a live huge block.
    unsafe {
        if let Some(kept) = kept_huge()
            && (!nodes::are_several() || nodes::of(meta) == node())
            && let Some(bytes) = huge::keep(meta, kept)
        {
            return bytes > 0;
        }
        huge::free(meta) > 0
    }
}

/// Frees a block of a program heap.
///
/// # Safety
/// As [`ProgramHeap::free`].
pub unsafe fn free_of(heap: &'static ProgramHeap, p: *mut u8, head: &'static Meta) {
    // SAFETY: `program::of` gave the heap and the metadata for `p`, as the caller says. A live
    // block starts there, which the caller gives up.
    if unsafe { heap.free(p, head) } {
        purge::tick();
    }
}

/// Frees a block in a guarded place.
#[cold]
#[inline(never)]
pub fn free_guarded(p: *mut u8) {
    if let Some(owner) = guard::free(p) {
        program::guarded::freed(owner);
    }
}

/// Frees a sample of the profile, or a block of a program heap: anything else that comes here is no
/// block, and ends the process.
///
/// # Safety
/// As [`free16`](super::free16).
#[cold]
#[inline(never)]
unsafe fn free_sampled(p: *mut u8, meta: &'static Meta) {
    if let Some((heap, head)) = program::of(p) {
        // SAFETY: the block is live and given up (`free` rule 1).
        return unsafe { free_of(heap, p, head) };
    }
    // SAFETY: if `p` is a sample, it is live and given up (`free` rule 1). One that is unmarked is
    // a large or huge block from then on.
    unsafe {
        match profile::freed(p, meta) {
            // A large block that waits for the profile's books is free memory to the purge.
            Freed::Done if profile::late_bytes() != 0 => purge::tick(),
            Freed::Done => {}
            Freed::Unmarked => free_whole(p, meta),
            Freed::NoSample => check::not_a_block(p, Some(meta)),
        }
    }
}
