//! The hardened build's way for the most calls: a block from the heap's list, and the free of a
//! block of a page. All checks are one condition here. If it does not hold, the slow way does the
//! call from its beginning, and reports what it finds.

use crate::api::front;
use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::page::{Kind, Meta};
use crate::base::size_class::{self, MEDIUM_MAX, SIZES, SMALL_MAX};
use crate::harden::tag::{self, Origin};
use crate::harden::{self, fence, has, quarantine, wipe};
use crate::heap::Heap;
use crate::large;
use crate::thread::{self, ThreadState};

/// Allocates a block for `size` bytes, aligned to 16. None: the slow way has to do it.
#[inline(always)]
pub fn alloc(size: usize, origin: Origin) -> Option<*mut u8> {
    // A size of 0 wraps.
    if size.wrapping_sub(1) >= SMALL_MAX - tag::BYTES {
        return None;
    }
    let (p, class) = front::pop16((size + tag::BYTES).max(tag::LEAST_BLOCK))?;
    // SAFETY: lists are of classes.
    let room = unsafe { *SIZES.get_unchecked(class) } as usize;
    // SAFETY: the block was just taken from the heap's list, and nobody else knows it. It has
    // `room` bytes, which hold `size` bytes and a tag.
    Some(unsafe { hand_out(p, room, size, origin, harden::is_zero(p, room)) })
}

/// [`alloc`] of a block above `SMALL_MAX`, with its tag.
#[inline(always)]
pub fn alloc_long(size: usize, origin: Origin) -> Option<*mut u8> {
    const LEAST: usize = SMALL_MAX - tag::BYTES;
    if size <= LEAST || size > MEDIUM_MAX - tag::BYTES {
        return None;
    }
    let class = size_class::computed(size + tag::BYTES);
    let p = front::pop_kept(class)?;
    let room = SIZES[class] as usize;
    // SAFETY: the block was just taken from the heap's list, and nobody else knows it. It has
    // `room` bytes, which hold `size` bytes and a tag.
    Some(unsafe { hand_out(p, room, size, origin, harden::is_as_it_was(p, room)) })
}

/// [`alloc`] of a large block.
#[inline(always)]
pub fn alloc_large(size: usize, origin: Origin) -> Option<*mut u8> {
    let total = size.checked_add(tag::BYTES).filter(|&total| total > MEDIUM_MAX)?;
    let p = front::pop_large(total)?;
    // SAFETY: the block was just taken from the heap's cache, and nobody else knows it. A block for
    // `total` bytes is so long.
    unsafe { tag::write(p, large::size_for(total), size, origin) };
    Some(p)
}

/// Frees the block at `p` for a call of `by`, which says that it has `size` bytes, if it says so.
/// False: nothing was done, and the slow way has to do it.
///
/// # Safety
/// If `p` is ours, it is live and the caller's to free (`hardened` rule 1).
#[inline(always)]
pub unsafe fn free(p: *mut u8, by: Origin, size: Option<usize>) -> bool {
    // SAFETY: the caller gives up a live block. If it is wrong: the page is this thread's, so all
    // words of its blocks are readable, and all of this is checked before anything is written. The
    // tags are single atomic words, and what `page` says of its blocks does not change: so no step
    // needs an order. A purge cannot end the page meanwhile: it takes away none with a live block,
    // and ends none with a listed one.
    unsafe {
        let Some(page) = front::own_page(p) else { return false };
        let room = page.block_size.get() as usize;
        let passes = passes(p, page, p.addr() % SLOT, SLOT, by, size);
        if passes {
            give_up(p, room, page);
        }
        passes
    }
}

/// [`free`] of a block that the calling thread's heap does not own, that lies in a page of several
/// slots or in a further arena, or that is freed in a scope. `meta` is the metadata of its slot.
///
/// # Safety
/// As [`free`].
#[inline(always)]
pub unsafe fn free_elsewhere(
    p: *mut u8,
    meta: &'static Meta,
    by: Origin,
    size: Option<usize>,
) -> bool {
    if meta.has_no_owner() || !p.addr().is_multiple_of(16) {
        return false;
    }
    let (page, owner, _) = meta.page_and_owner();
    // SAFETY: the caller gives up a live block. If it is wrong, `passes` reads words of the page
    // alone. The page has an owner, so its memory is accessible. Only if another thread ends the
    // page meanwhile, and fences a large block there, a wrong program faults.
    unsafe {
        let offset = p.addr() - page.start().addr();
        let passes = !owner.is_null() && passes(p, page, offset, page.bytes(), by, size);
        if passes {
            give_up_elsewhere(p, page.block_size.get() as usize, meta);
        }
        passes
    }
}

/// [`free`] of a large block that is no sample.
///
/// # Safety
/// As [`free_elsewhere`].
#[inline(always)]
pub unsafe fn free_large(p: *mut u8, meta: &'static Meta, by: Origin, size: Option<usize>) -> bool {
    // The words of a fenced block are not readable.
    if !meta.is(Kind::Large) || p != meta.start() || fence::has(p) {
        return false;
    }
    let room = large::size(meta);
    // SAFETY: a large block of `room` bytes starts at `p`, which is in use. The fence calls back
    // for blocks that nobody uses.
    unsafe {
        let passes = tag::is_live(p, room, by, size);
        if passes && harden::is_low() {
            tag::clear(p, room);
            front::free16(p);
        } else if passes {
            fence::put(p, room, super::free::pace(), |leaves| front::free16(leaves));
        }
        passes
    }
}

/// True if a block of `page` starts at `offset`, where `p` points, that is live, was allocated by
/// `by`, and has `size` bytes, if that is said; and if all around it is as hakmem wrote it. The
/// page has `bytes` bytes.
///
/// # Safety
/// The words of the page are readable.
#[inline(always)]
unsafe fn passes(
    p: *mut u8,
    page: &Meta,
    offset: usize,
    bytes: usize,
    by: Origin,
    size: Option<usize>,
) -> bool {
    let room = page.block_size.get() as usize;
    // SAFETY: where a block may start and end in the page, `room` bytes are readable, and so is the
    // block before, unless it is the first.
    unsafe {
        size_class::is_start(page.class.get(), offset as u32)
            && offset + room <= bytes
            && tag::is_live(p, room, by, size)
            && (!has::NEIGHBOUR || offset < room || tag::is_sound(p.wrapping_sub(room), room))
    }
}

/// Wipes a block and lets it wait, or frees it.
///
/// # Safety
/// The block passed its checks, the calling thread's heap owns its page, and the caller gives it
/// up.
#[inline(always)]
unsafe fn give_up(p: *mut u8, room: usize, page: &Meta) {
    // SAFETY: the block is this call's, and has `room` bytes. The thread owns a page, so it has a
    // heap, which begins with its front. What leaves the quarantine is nobody's.
    unsafe {
        tag::clear(p, room);
        if room > quarantine::LARGEST {
            return give_up_long(p, page);
        }
        if harden::is_low() {
            return front::free_own(p, page);
        }
        if has::WIPING {
            wipe::wipe(p, room);
        }
        let leaves = (*thread::front().cast::<Heap>()).quarantine.swap(p);
        if !leaves.is_null() {
            super::free::leave(leaves);
        }
    }
}

/// [`give_up`] of a block that does not wait.
///
/// # Safety
/// As [`give_up`].
#[cold]
#[inline(never)]
unsafe fn give_up_long(p: *mut u8, page: &Meta) {
    // SAFETY: the block is this call's, and as long as the page says. The page is this thread's.
    unsafe {
        wipe(p, page.block_size.get() as usize);
        front::free_own(p, page);
    }
}

/// Wipes a block that passed its checks, and lets it wait or frees it, whoever owns its page.
///
/// # Safety
/// The block has `room` bytes, the slot of `meta` is of its page, and the caller gives it up.
#[inline(always)]
pub unsafe fn give_up_elsewhere(p: *mut u8, room: usize, meta: &'static Meta) {
    // SAFETY: the block is this call's, and has `room` bytes. What leaves the quarantine is
    // nobody's.
    unsafe {
        tag::clear(p, room);
        wipe(p, room);
        if room <= quarantine::LARGEST
            && !harden::is_low()
            && let ThreadState::Live(heap) = thread::state()
        {
            let leaves = heap.quarantine.swap(p);
            if !leaves.is_null() {
                super::free::leave(leaves);
            }
            return;
        }
        front::free_in_page(p, meta);
    }
}

/// Wipes a block that becomes free, but not at the level `low`.
///
/// # Safety
/// The caller has the block, which has `room` bytes.
#[inline(always)]
pub unsafe fn wipe(p: *mut u8, room: usize) {
    if has::WIPING && !harden::is_low() {
        // SAFETY: the caller has the block, which has `room` bytes: a multiple of 16.
        unsafe { wipe::wipe(p, room) };
    }
}

/// Makes a block live, and returns it. `is_kept`: nobody wrote to it since its free.
///
/// # Safety
/// As [`become_live`].
#[inline(always)]
unsafe fn hand_out(p: *mut u8, room: usize, size: usize, origin: Origin, is_kept: bool) -> *mut u8 {
    // SAFETY: the caller has the block, which has `room` bytes.
    unsafe {
        if !is_kept {
            return alloc_overwritten(p, room, size, origin);
        }
        become_live(p, room, size, origin);
    }
    p
}

/// Makes a block live: it is as its free left it.
///
/// # Safety
/// The caller has the block, which has `room` bytes: enough for `size` and a tag.
#[inline(always)]
pub unsafe fn become_live(p: *mut u8, room: usize, size: usize, origin: Origin) {
    // SAFETY: the caller has the block, which has `room` bytes, and no contents.
    unsafe {
        p.cast::<usize>().write(0);
        tag::write(p, room, size, origin);
    }
}

/// Makes a block live that somebody wrote to. Returns it.
///
/// # Safety
/// As [`become_live`].
#[cold]
#[inline(never)]
unsafe fn alloc_overwritten(p: *mut u8, room: usize, size: usize, origin: Origin) -> *mut u8 {
    // SAFETY: the caller has the block, which has `room` bytes.
    unsafe {
        check::overwritten(p, room, 8);
        become_live(p, room, size, origin);
    }
    // The compiler does not see that this is the argument. So the fast way ends by a jump, and
    // needs no stack.
    core::hint::black_box(p)
}
