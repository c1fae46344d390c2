//! Large and huge blocks: from the heap's cache, from whole slots of a segment, or from whole
//! segments.
//!
//! Rules
//! 1. What takes whole slots or segments keeps the soft limit afterwards (`keep_limit`).
//! 2. A block of a cache is not known to be zero.

use super::scoped::big_from_scope;
use super::{Clear, no_memory};
use crate::api::front::resize::size_of_whole;
use crate::api::front::{keep_limit, refused};
use crate::backend::arena::SLOT;
use crate::backend::nodes;
use crate::backend::page::{self, Kind, Meta};
use crate::heap::all::are_many;
use crate::heap::{CachedLarge, Heap, peak};
use crate::large::huge::{self, kept::Kept};
use crate::large::{self, LARGE_MAX};
use crate::thread::{self, ThreadState};
use crate::{profile, purge};

/// Allocates a large or huge block: `n` is above the largest class, or `align` is larger than the
/// alignment of pages.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn alloc_big(n: usize, align: usize, clear: Clear) -> *mut u8 {
    if let Err(scope) = thread::state_in_scope() {
        return big_from_scope(scope, n, align, clear);
    }
    if profile::is_on() {
        return alloc_big_sampled(n, align, clear);
    }
    from_cache_or_new(n, align, clear)
}

/// [`alloc_big`] while the profile is on.
#[cold]
#[inline(never)]
fn alloc_big_sampled(n: usize, align: usize, clear: Clear) -> *mut u8 {
    let p = from_cache_or_new(n, align, clear);
    sample_whole(p);
    p
}

/// Samples the large or huge block at `p`, which was just allocated, if a sample is due. Does
/// nothing for null.
#[cold]
#[inline(never)]
pub fn sample_whole(p: *mut u8) {
    if let Some(meta) = page::lookup(p) {
        thread::with_heap(|heap| {
            heap.sample_large(meta, size_of_whole(p, meta));
            Some(())
        });
    }
}

/// [`alloc_big`] for a request of malloc. The usual case of a large block comes first.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub(super) extern "C" fn alloc_large(n: usize) -> *mut u8 {
    if n > LARGE_MAX || profile::is_on() {
        return alloc_big(n, SLOT, Clear::Nothing);
    }
    let Some(heap) = thread::heap() else { return alloc_big(n, SLOT, Clear::Nothing) };
    match heap.cached_large(n) {
        CachedLarge::Block(p) => p,
        CachedLarge::Grown(p) => grown(p, heap),
        CachedLarge::None => new_whole(n, SLOT, Clear::Nothing),
    }
}

/// A large block for `n` bytes from the cache of the thread's heap. None: another path has to serve
/// the request.
#[inline(always)]
pub fn pop_large(n: usize) -> Option<*mut u8> {
    if n > LARGE_MAX || profile::is_on() {
        return None;
    }
    let heap = thread::heap()?;
    match heap.cached_large(n) {
        CachedLarge::Block(p) => Some(p),
        CachedLarge::Grown(p) => Some(grown(p, heap)),
        CachedLarge::None => None,
    }
}

/// Returns `p`, with which the live bytes of `heap` have grown.
#[cold]
#[inline(never)]
extern "C" fn grown(p: *mut u8, heap: &'static Heap) -> *mut u8 {
    heap.note_growth();
    p
}

/// A large block from the heap's cache, else [`new_whole`].
#[inline(always)]
fn from_cache_or_new(n: usize, align: usize, clear: Clear) -> *mut u8 {
    if n > LARGE_MAX || align > SLOT {
        return new_whole(n, align, clear);
    }
    let ThreadState::Live(heap) = thread::state() else { return new_whole(n, align, clear) };
    let p = match heap.cached_large(n) {
        CachedLarge::Block(p) => p,
        CachedLarge::Grown(p) => grown(p, heap),
        CachedLarge::None => return new_whole(n, align, clear),
    };
    // SAFETY: `cached_large` has just allocated the block for `n` bytes, and no one else knows it
    // yet.
    unsafe { clear_large(p, n, clear) };
    p
}

/// Zeroes as much of the large block at `p` as `clear` says.
///
/// # Safety
/// The block is live and was allocated for `n` bytes. No other thread uses it during the call.
#[inline(never)]
unsafe fn clear_large(p: *mut u8, n: usize, clear: Clear) {
    let bytes = match clear {
        Clear::Nothing => return,
        Clear::Request => n,
        Clear::Block => large::size_for(n),
    };
    // SAFETY: the caller promises that the block is live and in no use. It was allocated for `n`
    // bytes, so it holds `size_for(n)`.
    unsafe { p.write_bytes(0, bytes) };
}

/// The huge blocks that the calling thread's heap keeps. None: it has no heap, or none are kept.
#[inline(always)]
pub fn kept_huge() -> Option<&'static Kept> {
    if !are_many() {
        return None;
    }
    match thread::state() {
        ThreadState::Live(heap) => Some(heap.kept_huge()),
        ThreadState::Empty | ThreadState::Dead => None,
    }
}

/// The node of memory that the calling thread's heap is of.
pub fn node() -> usize {
    match thread::state() {
        ThreadState::Live(heap) => heap.shared().node(),
        ThreadState::Empty | ThreadState::Dead => nodes::here(),
    }
}

/// Takes a large block from a segment, or a huge block, and says whether it is zero. None: there is
/// no memory.
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn take_whole(n: usize, align: usize, clear: Clear) -> Option<(&'static Meta, bool)> {
    if n <= LARGE_MAX && align <= SLOT {
        return thread::with_heap(|heap| heap.fresh_large(n));
    }
    if let Some(kept) = kept_huge()
        && let Some(got) = huge::take_kept(n, align, kept)
    {
        return Some(got);
    }
    huge::alloc(n, align, clear == Clear::Nothing, node())
}

/// A large block from a segment, or a huge block. If there is no memory, it gives all that is free
/// back first.
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
fn new_whole(n: usize, align: usize, clear: Clear) -> *mut u8 {
    if n > huge::TOO_LARGE || align > huge::TOO_LARGE {
        return no_memory();
    }
    let whole = || take_whole(n, align, clear);
    let Some((meta, zero)) = whole().or_else(|| refused::again(n, whole)) else {
        return no_memory();
    };
    keep_limit();
    if meta.kind() == Kind::Huge {
        peak::follow();
        if zero {
            purge::grew(huge::size(meta));
        }
    } else {
        purge::keep_huge_bound();
    }
    if clear != Clear::Nothing && !zero {
        // SAFETY: `take_whole` has just allocated the block for `n` bytes, and no one else knows it
        // yet.
        unsafe {
            match meta.kind() {
                Kind::Huge => huge::clear(meta, n, clear == Clear::Block),
                _ => clear_large(meta.start(), n, clear),
            }
        }
    }
    meta.start()
}
