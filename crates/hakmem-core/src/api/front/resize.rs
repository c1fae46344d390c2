//! Sizes of blocks, and how they are changed.

use super::PTRDIFF_MAX;
use super::alloc::sample_whole;
use super::free_known;
use crate::backend::check;
use crate::backend::page::{self, Kind, Meta};
use crate::base::size_class::MEDIUM_MAX;
use crate::large::huge;
use crate::large::{self, LARGE_MAX};
use crate::{profile, purge, thread};

/// Bytes that the block at `p` holds; None: not ours. A pointer into an arena that is no block's start is fatal. Programs
/// that keep accounts ask for it with each allocation and each free: for a block of a page, one line of metadata is
/// read, which these use too.
///
/// # Safety
/// If `p` is ours, it is live.
#[inline]
pub unsafe fn size_of_block(p: *mut u8) -> Option<usize> {
    let meta = page::lookup(p)?;
    let head = meta.head_of_block();
    if head.owner().is_null() {
        return Some(size_of_whole(p, meta));
    }
    Some(head.block_size.get() as usize)
}

/// [`size_of_block`] for a block that starts in the first slot of a page of the first arena; None: it is another's.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn size_of_small(p: *mut u8) -> Option<usize> {
    let meta = page::lookup_first(p)?;
    (!meta.owner().is_null()).then(|| meta.block_size.get() as usize)
}

/// Bytes of the large block or huge block at `p`, in the slot of `meta`.
#[cold]
#[inline(never)]
pub fn size_of_whole(p: *mut u8, meta: &'static Meta) -> usize {
    match profile::plain(meta.kind()) {
        Kind::Large if p == meta.start() => large::size(meta),
        Kind::Huge if p == meta.start() => huge::size(meta),
        _ if meta.head().kind() == Kind::Sampled => meta.head().block_size.get() as usize,
        _ => check::not_a_block(p, Some(meta)),
    }
}

/// True if a block that holds `old` bytes may stay as it is for `n`: one that would be less than half used is better moved to a
/// smaller one.
#[inline(always)]
pub fn fits(old: usize, n: usize) -> bool {
    n <= old && (n > old / 2 || old <= 64)
}

/// Makes the block at `p`, which holds `old` bytes, hold `n` without copying. Returns where it is then; None: it has
/// to be copied, and nothing has changed.
///
/// # Safety
/// `p` is ours, live, and used by nobody else during the call. `n` is not 0.
pub unsafe fn resize(p: *mut u8, old: usize, n: usize) -> Option<*mut u8> {
    if fits(old, n) {
        return Some(p);
    }
    if old <= MEDIUM_MAX || n <= MEDIUM_MAX || n > PTRDIFF_MAX {
        return None;
    }
    let meta = page::lookup(p)?;
    // SAFETY: passed on.
    let resized = unsafe {
        if matches!(meta.kind(), Kind::SampledLarge | Kind::SampledHuge) {
            profile::resize(meta, || resize_whole(p, meta, n))
        } else {
            resize_whole(p, meta, n)
        }
    };
    if let Some(at) = resized
        && profile::is_on()
    {
        sample_whole(at); // It is as if it had been allocated anew.
    }
    resized
}

/// Resizes the large block or huge block at `p`, in the slot of `meta`.
///
/// # Safety
/// As [`resize`].
unsafe fn resize_whole(p: *mut u8, meta: &'static Meta, n: usize) -> Option<*mut u8> {
    // SAFETY: passed on.
    unsafe {
        match meta.kind() {
            Kind::Large => thread::with_heap(|heap| heap.resize_large(meta, n).then_some(p)),
            Kind::Huge if n > LARGE_MAX => {
                let moved = huge::resize(meta, n)?;
                purge::tick();
                Some(moved.start())
            }
            _ => None,
        }
    }
}

/// Moves `p`, which holds `old` bytes, to `to`, which holds `n`, and frees it.
///
/// # Safety
/// Both are live blocks of this allocator and the caller's.
#[inline]
pub unsafe fn move_block(p: *mut u8, old: usize, to: *mut u8, n: usize) {
    // SAFETY: two different blocks of at least so many bytes.
    unsafe {
        to.copy_from_nonoverlapping(p, old.min(n));
        free_known(p);
    }
}

/// [`move_block`] for what may be a huge block that grows from now on.
///
/// # Safety
/// As there.
pub unsafe fn move_grown(p: *mut u8, old: usize, to: *mut u8, n: usize) {
    if n > LARGE_MAX
        && old < n
        && let Some(meta) = page::lookup(to)
    {
        huge::will_be_filled(meta, old, n);
    }
    // SAFETY: passed on.
    unsafe { move_block(p, old, to, n) };
}
