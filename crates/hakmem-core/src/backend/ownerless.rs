//! Pages of blocks that no heap owns: those of program heaps, and of samples of the profile. A lock
//! of whoever has the page guards the first lines of its metadata.
//!
//! ```text
//! used = list.until_slow      of the `carved` blocks; the others are on `list.free`
//! ```

use crate::backend::check;
use crate::backend::page::{Block, Meta};
use crate::harden;
use crate::proto::inbox::Link;
use core::ptr::NonNull;

/// True if the page has a free block.
#[inline(always)]
pub fn has_room(page: &Meta) -> bool {
    !page.list.free.get().is_null() || page.carved.get() < page.cap.get()
}

/// Takes a block of a page that has room. Also returns whether it is zero. A link that does not
/// lead to a block of the page ends the process.
#[inline(always)]
pub fn take(page: &Meta) -> (NonNull<u8>, bool) {
    page.list.until_slow.set(page.list.until_slow.get() + 1);
    let Some(block) = NonNull::new(page.list.free.get()) else {
        return (carve(page), page.zero.get());
    };
    // SAFETY: the block is on the list of the page, whose lock the caller has: so it is free.
    let next = unsafe { Block::next(block.as_ptr()) };
    check::check_link_of(page, block.as_ptr(), next);
    page.list.free.set(next);
    (block.cast(), false)
}

/// Carves the next block of a page that has one.
#[inline]
fn carve(page: &Meta) -> NonNull<u8> {
    let (size, carved) = (page.block_size.get() as usize, page.carved.get());
    debug_assert!(carved < page.cap.get() && size <= page.bytes());
    page.carved.set(carved + 1);
    let block = page.start().wrapping_add(carved as usize * size);
    if harden::ON && !page.zero.get() {
        // SAFETY: the block lies in a page whose lock the caller has, beyond the carved part: no
        // one uses it.
        unsafe { harden::wipe_blocks(block, size, 1) };
    }
    // SAFETY: the address lies in an arena, so it is not null.
    unsafe { NonNull::new_unchecked(block) }
}

/// Puts a block on the list of its page. Returns how many are used then.
///
/// # Safety
/// [`take`] gave the block, the caller gives it up, and it is on no list.
#[inline(always)]
pub unsafe fn give(page: &Meta, block: *mut Block) -> i32 {
    // SAFETY: the block is this call's, and has a word at least.
    unsafe { Block::set_next(block, page.list.free.replace(block)) };
    let used = page.list.until_slow.get() - 1;
    page.list.until_slow.set(used);
    used
}
