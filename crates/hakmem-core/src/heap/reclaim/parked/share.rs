//! Shared pages: parked pages from which many heaps get their first blocks.

use super::{GIVEN_UP, LOCK, Locked, OWNER};
use crate::backend::check;
use crate::backend::page::{Block, Meta, PageState, ParkedList};
use crate::backend::segment;
use crate::base::size_class::SIZES;
use crate::base::sync::Ordering::Relaxed;
use crate::harden;
use crate::heap::reclaim::holes;
use crate::os;
use crate::proto::inbox::Link;
use core::ptr::null_mut;

/// Blocks of a shared page for one heap.
pub struct Share {
    /// The first block. It links to the others, unless all were carved: carved blocks lie side by
    /// side and are untouched.
    pub first: *mut Block,
    /// The number of blocks.
    pub count: u32,
    /// True if the blocks were carved, false if they were freed before.
    pub carved: bool,
    /// True if the page was claimed for this request.
    pub claimed: bool,
    /// True if carved blocks are zero.
    pub zero: bool,
}

/// Takes blocks of `class` from a shared page: as many as have room in `bytes`, at least one, and
/// fewer if the page has no more. None: there is no memory, a signal handler calls this which
/// interrupted this module, or see [`Locked::wait`]. O(blocks), and the merge of remote frees.
pub fn share(class: usize, bytes: u32) -> Option<Share> {
    if GIVEN_UP.load(Relaxed) {
        return None;
    }
    let me = os::thread_token();
    if LOCK.is_held_by(me) {
        return None; // This is a signal handler that interrupted the holder.
    }
    let pages = Locked::wait(me)?;
    pages.merge();
    let most = (bytes / SIZES[class]).max(1);
    let mut claimed = false;
    loop {
        let page = match pages.page_to_share(class) {
            Some(page) => page,
            None => {
                claimed = true;
                pages.claim(class)?
            }
        };
        // SAFETY: the page is in a list of `pages`, or was just claimed for it.
        let got = unsafe { pages.take_some(page, most) };
        let is_full = page.list.free.get().is_null()
            && page.carved.get() == page.cap.get()
            && page.holes.get() == 0;
        pages.relink(page, if is_full { ParkedList::Full } else { ParkedList::Shared });
        if let Some((first, count, carved)) = got {
            page.list.until_slow.set(page.list.until_slow.get() + count as i32);
            return Some(Share { first, count, carved, claimed, zero: page.zero.get() });
        }
    }
}

impl Locked {
    /// Claims a page of `class` for heaps to share.
    fn claim(&self, class: usize) -> Option<&'static Meta> {
        let (page, zero) = segment::claim_anywhere(1)?;
        segment::note_small(1);
        page.open(class, SIZES[class], 1, zero);
        page.set_owner(OWNER.as_word());
        page.state.set(PageState::Parked);
        self.link(page, ParkedList::Shared);
        Some(page)
    }

    /// Takes up to `most` blocks of a page. Returns the first one, their number, and whether they
    /// were carved. Carved blocks are not linked: the heap that gets them writes the links after
    /// the lock is released. None: the page has no free block.
    ///
    /// # Safety
    /// The page is a parked one.
    unsafe fn take_some(&self, page: &Meta, most: u32) -> Option<(*mut Block, u32, bool)> {
        let (carved, left) = (page.carved.get(), page.cap.get() - page.carved.get());
        if page.list.free.get().is_null() && left > 0 {
            let count = most.min(left);
            page.carved.set(carved + count);
            let size = page.block_size.get() as usize;
            let first = page.start().wrapping_add(carved as usize * size);
            // Under the lock: a free of the next block, which another heap may get, reads the tag
            // of the last.
            if harden::ON && !page.zero.get() {
                // SAFETY: the blocks lie in the page beyond the carved part: no one uses them.
                unsafe { harden::wipe_blocks(first, size, count as usize) };
            }
            return Some((first.cast(), count, true));
        }
        if page.list.free.get().is_null() {
            // SAFETY: this thread has the lock, which makes it the owner of parked pages (`parked`
            // rule 1).
            page.list.free.set(unsafe { holes::fill(page)?.0 });
        }
        let first = page.list.free.get();
        let (mut last, mut count) = (first, 0);
        let blocks = check::Carved::of(page);
        // SAFETY: the list of the page has free blocks of it alone (`page` rule 4). This thread
        // owns the page, as it has the lock (`parked` rule 1).
        unsafe {
            loop {
                if check::CHECKED && !blocks.has(last) {
                    check::corrupt(last.cast());
                }
                count += 1;
                let next = Block::next(last);
                if count == most || next.is_null() {
                    page.list.free.set(next);
                    Block::set_next(last, null_mut());
                    return Some((first, count, false));
                }
                last = next;
            }
        }
    }
}
