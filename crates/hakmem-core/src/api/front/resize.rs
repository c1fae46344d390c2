//! The size of a block, and how it changes.

use super::PTRDIFF_MAX;
use super::alloc::sample_whole;
use super::{free_known, note_released};
use crate::backend::arena::SEGMENT;
use crate::backend::check;
use crate::backend::page::{self, Kind, Meta};
use crate::base::size_class::MEDIUM_MAX;
use crate::heap::peak;
use crate::large::huge;
use crate::large::{self, LARGE_MAX};
use crate::{guard, harden, profile, purge, thread};

/// The usable bytes of the block at `p`. None: the pointer is foreign. A pointer into an arena at
/// which no block starts ends the process.
///
/// Programs that keep accounts call this at each allocation and each free. For a block of a page it
/// reads one line of metadata, which allocation and free read too.
///
/// # Safety
/// If `p` is from this allocator, it is live.
#[inline]
pub unsafe fn size_of_block(p: *mut u8) -> Option<usize> {
    let Some(meta) = page::lookup(p) else { return guard::has(p).then(|| guard::size(p)) };
    let head = meta.head_of_block();
    let owner = head.owner();
    if owner.is_null() {
        return Some(size_of_whole(p, meta));
    }
    let front = thread::front();
    if core::ptr::eq(front, owner.cast()) {
        // SAFETY: the word of a thread leads to a readable front, and only this thread writes it.
        let list = unsafe { &(*front).lists[usize::from(head.class.get())] };
        check::check_not_free(p, head, list.free.get());
    }
    Some(head.block_size.get() as usize)
}

/// [`size_of_block`] for a block that starts in the first slot of a page of the first arena. None:
/// `p` is any other pointer.
///
/// # Safety
/// If `p` is from this allocator, it is live.
#[inline(always)]
pub unsafe fn size_of_small(p: *mut u8) -> Option<usize> {
    let meta = page::lookup_first(p)?;
    (!meta.owner().is_null()).then(|| meta.block_size.get() as usize)
}

/// The usable bytes of the large or huge block at `p`, whose slot has the metadata `meta`.
#[cold]
#[inline(never)]
pub fn size_of_whole(p: *mut u8, meta: &'static Meta) -> usize {
    match profile::plain(meta.kind()) {
        Kind::Large if p == meta.start() => large::size(meta),
        Kind::Huge if p == meta.start() => huge::size(meta),
        _ if matches!(meta.head().kind(), Kind::Sampled | Kind::ProgramPage) => {
            meta.head().block_size.get() as usize
        }
        _ => check::not_a_block(p, Some(meta)),
    }
}

/// True if a block of `old` bytes may stay where it is for a request of `n`. A block that would be
/// less than half used moves to a smaller one, but for those of [`stays_at_border`]. The tag of the
/// hardened build has 32 bits for what is not used.
#[inline(always)]
pub fn fits(old: usize, n: usize) -> bool {
    n <= old && (n > old / 2 || old <= 64) && (!harden::ON || old - n <= u32::MAX as usize)
}

/// True if a large or huge block of `old` bytes stays as it is for a request of `n` that is a
/// little too small for its kind: of at least seven eighths of the border of the two kinds, if the
/// block is at most twice the border. Else one that grows and shrinks over the border is copied
/// each time.
fn stays_at_border(old: usize, n: usize) -> bool {
    [MEDIUM_MAX, LARGE_MAX].iter().any(|&border| {
        (border + 1..=2 * border).contains(&old) && (border / 8 * 7..=border).contains(&n)
    })
}

/// Makes the block at `p`, which holds `old` bytes, hold `n` bytes without a copy. Returns its new
/// address, a multiple of `align`, which is the block's alignment. None: nothing has changed, and
/// the caller has to copy.
///
/// # Safety
/// `p` is from this allocator and live. No other thread uses it during the call. `n` is not 0.
pub unsafe fn resize(p: *mut u8, old: usize, n: usize, align: usize) -> Option<*mut u8> {
    if (fits(old, n) || stays_at_border(old, n)) && !guard::has(p) {
        return Some(p);
    }
    // A huge block that moves goes to a multiple of SEGMENT.
    if old <= MEDIUM_MAX || n <= MEDIUM_MAX || n > PTRDIFF_MAX || align > SEGMENT {
        return None;
    }
    let meta = page::lookup(p)?;
    // SAFETY: the caller promises that `p` is live and in no other use. `lookup` found the metadata
    // of its slot.
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
        sample_whole(at); // The resized block counts as a new allocation.
    }
    resized
}

/// [`resize`] of a block that is to grow, after an allocation for a copy has failed: that has given
/// back what was free, so perhaps the block itself can grow now. Null: nothing has changed.
///
/// # Safety
/// As [`resize`].
#[cold]
#[inline(never)]
pub unsafe fn resize_at_last(p: *mut u8, old: usize, n: usize, align: usize) -> *mut u8 {
    // SAFETY: the caller promises what `resize` asks for.
    unsafe { resize(p, old, n, align) }.unwrap_or(core::ptr::null_mut())
}

/// Resizes the large or huge block at `p`, whose slot has the metadata `meta`.
///
/// # Safety
/// `p` is live and starts in the slot of `meta`. No other thread uses it during the call.
unsafe fn resize_whole(p: *mut u8, meta: &'static Meta, n: usize) -> Option<*mut u8> {
    // SAFETY: the caller promises a live block that no other thread uses. Its kind says which of
    // the two functions it belongs to.
    unsafe {
        match meta.kind() {
            Kind::Large => thread::with_heap(|heap| {
                let stays = heap.resize_large(meta, n);
                if heap.has_released() {
                    note_released(heap);
                }
                stays.then_some(p)
            }),
            Kind::Huge if n > LARGE_MAX => {
                let moved = huge::resize(meta, n)?;
                peak::follow();
                purge::tick();
                Some(moved.start())
            }
            _ => None,
        }
    }
}

/// Copies the block at `p`, which holds `old` bytes, to the block at `to`, which holds `n`, and
/// frees `p`.
///
/// # Safety
/// Both are different live blocks of this allocator, and the caller's to use. The caller gives `p`
/// up.
#[inline]
pub unsafe fn move_block(p: *mut u8, old: usize, to: *mut u8, n: usize) {
    // SAFETY: the caller promises two different live blocks. They hold `old` and `n` bytes, and the
    // copy has the smaller number. The caller gives `p` up.
    unsafe {
        to.copy_from_nonoverlapping(p, old.min(n));
        free_known(p);
    }
}

/// [`move_block`] for a block that grows. If `to` is huge, it may grow further.
///
/// # Safety
/// Both are different live blocks of this allocator, and the caller's to use. The caller gives `p`
/// up.
pub unsafe fn move_grown(p: *mut u8, old: usize, to: *mut u8, n: usize) {
    if n > LARGE_MAX
        && old < n
        && let Some(meta) = page::lookup(to)
    {
        huge::will_be_filled(meta, old, n);
    }
    // SAFETY: the caller promises two different live blocks of `old` and `n` bytes, and gives `p`
    // up.
    unsafe { move_block(p, old, to, n) };
}
