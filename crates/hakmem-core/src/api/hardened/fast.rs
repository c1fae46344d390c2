//! The hardened build's way for the most calls: a small block from the heap's list, and its free by
//! the thread that has the page. All checks are one condition here. If it does not hold, the slow
//! way does the call from its beginning, and reports what it finds.

use crate::api::front;
use crate::backend::arena::SLOT;
use crate::backend::page::Meta;
use crate::base::size_class::{self, SIZES, SMALL_MAX};
use crate::harden::tag::{self, Origin};
use crate::harden::{has, quarantine, wipe};
use crate::heap::Heap;
use crate::thread;

/// Allocates a block for `size` bytes, aligned to 16. None: the slow way has to do it.
#[inline(always)]
pub fn alloc(size: usize, origin: Origin) -> Option<*mut u8> {
    // A size of 0 wraps.
    if size.wrapping_sub(1) >= SMALL_MAX - tag::BYTES {
        return None;
    }
    let (p, class) = front::pop16((size + tag::BYTES).max(tag::LEAST_BLOCK))?;
    let room = SIZES[class] as usize;
    // SAFETY: the block was just taken from the heap's list, and nobody else knows it. It has
    // `room` bytes, which hold `size` bytes and a tag.
    unsafe { super::alloc::make_live(p, room, size, origin) };
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
        let (room, offset) = (page.block_size.get() as usize, p.addr() % SLOT);
        let passes = size_class::is_start(page.class.get(), offset as u32)
            && tag::is_live(p, room, by, size)
            && (!has::NEIGHBOUR || offset < room || tag::is_sound(p.wrapping_sub(room), room));
        if passes {
            give_up(p, room, page);
        }
        passes
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
        if super::is_low() {
            return front::free_own(p, page);
        }
        if has::WIPING {
            wipe::wipe(p, room & !15);
        }
        if room > quarantine::LARGEST {
            return front::free_own(p, page);
        }
        let leaves = (*thread::front().cast::<Heap>()).quarantine.swap(p);
        if !leaves.is_null() {
            super::free::leave(leaves);
        }
    }
}

/// True if nobody wrote to a block on a list.
///
/// # Safety
/// The caller has the block, which has `room` bytes.
#[inline(always)]
pub unsafe fn is_as_it_was(p: *mut u8, room: usize) -> bool {
    // SAFETY: the caller has the block, which has `room` bytes.
    unsafe {
        if super::is_low() || !has::CHECK {
            tag::is_clear(p, room)
        } else {
            wipe::is_wiped(p, room)
        }
    }
}
