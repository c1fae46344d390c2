//! Giving back what is free in a heap: when memory is short, when the thread ends, and while the
//! heap is idle.

use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::page::{self, Block, FIRST_LISTED, Kind, Meta, PageState};
use crate::base::size_class::CLASSES;
use crate::harden::{self, wipe};
use crate::heap::Heap;
use crate::heap::reclaim::LONGEST;
use crate::proto::inbox::Link;
use crate::proto::take_away;
use core::ptr::null_mut;

impl Heap {
    /// Gives up everything that is free: listed blocks go back to their pages, empty pages to their
    /// segments, and remote batches to their owners. O(classes + blocks in lists).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn collect(&self) {
        self.busy(|| {
            self.receive_remote_frees();
            self.empty_quarantine();
            for class in 0..CLASSES {
                self.put_list_back(class);
                self.put_scattered_back(class);
            }
            self.give_up_unused();
            self.huge.empty();
            self.share_anew();
            self.forget_refills();
            self.end_samples();
            self.outgoing.send_all(self);
            self.give_up_cached(); // It may have cached pages of others that ended.
            for candidates in &self.candidates {
                // SAFETY: candidates are null or pages of this heap: `withdraw` removes a page from
                // them before the heap gives the page up.
                if let Some(page) = unsafe { candidates.replace(null_mut()).as_ref() } {
                    self.park(page);
                }
            }
            self.report_live();
            self.home.tell();
        });
    }

    /// Gives the blocks of the list of `class` back. The caller is inside. O(blocks of the list).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) fn put_list_back(&self, class: usize) {
        let first = self.owner.front.lists[class].free.replace(null_mut());
        self.put_blocks_back(class, first);
    }

    /// Gives blocks of `class` back, linked from `block` on: what a list of the heap had. The
    /// caller is inside. O(their number).
    pub(in crate::heap) fn put_blocks_back(&self, class: usize, mut block: *mut Block) {
        let mut unused = 0;
        while !block.is_null() {
            let Some(slot) = page::lookup(block.cast()) else { check::corrupt(block.cast()) };
            // Frees put blocks onto the list, and do not check where they start. Of small ones
            // `Carved` finds that below.
            if class >= FIRST_LISTED && !check::may_start(block, class as u8) {
                check::freed_before(block.cast(), slot);
            }
            let page = slot.head_of_block();
            // A block that the program freed twice may be on the list although its page has ended.
            let blocks = check::Carved::of(page);
            if check::CHECKED && (page.kind() != Kind::Page || !blocks.has(block)) {
                check::corrupt(block.cast());
            }
            // SAFETY: the block came from a list of the heap, which the holder alone uses (`heap`
            // rule 1). So no one else uses the block, and its first word is a link. It may be of a
            // page that another owner has: the heap can keep a block on its list and park its page,
            // and it keeps some blocks of others.
            unsafe {
                if page.owner() == self.owner() {
                    let (next, count) = self.free_neighbours(page, blocks, block);
                    block = next;
                    unused += count;
                } else {
                    let next = Block::next(block);
                    self.put_back(page, block);
                    block = next;
                    unused += 1;
                }
            }
            // A block that is there twice makes the list a circle. Blocks of other owners'
            // pages are not counted here, so nothing else would end the loop.
            if unused > LONGEST {
                check::corrupt(block.cast());
            }
        }
        // The program did not get these blocks from the list, so they count neither as
        // allocated nor as freed.
        self.unlist(class, unused);
    }

    /// Frees `block`, and those that follow it in its list, up to the first one in another slot.
    /// Returns that one, and the number of freed blocks, at most `LONGEST`. `blocks` says where
    /// those of the page start. The caller is inside.
    ///
    /// # Safety
    /// The calling thread holds this heap, which owns `page`. The block is of the page, it and
    /// those behind it are on a list of the heap, and the caller gives them up.
    unsafe fn free_neighbours(
        &self,
        page: &Meta,
        blocks: check::Carved,
        block: *mut Block,
    ) -> (*mut Block, u32) {
        let (mut last, mut count) = (block, 1);
        // SAFETY: the blocks are the caller's, so their first words are links.
        unsafe {
            let mut next = Block::next(last);
            while (next.addr() ^ block.addr()) < SLOT && count < LONGEST {
                if check::CHECKED && !blocks.has(next) {
                    check::corrupt(next.cast());
                }
                (last, count) = (next, count + 1);
                next = Block::next(last);
            }
            let push = || {
                Block::set_next(last, page.list.free.get());
                page.list.free.set(block);
            };
            take_away::free(push, || {
                page.list.until_slow.set(page.list.until_slow.get() - count as i32)
            });
            if page.list.until_slow.get() <= 0 {
                self.unfull_or_empty(page);
            }
            (next, count)
        }
    }

    /// Frees the blocks that wait in the hardened build. The caller is inside.
    fn empty_quarantine(&self) {
        loop {
            let block = self.quarantine.take();
            let Some(page) = page::lookup(block) else { return };
            let page = page.head_of_block();
            // A link will lie in the first word. The rest is checked when the block is handed out.
            // SAFETY: the block has left the quarantine, so it is this heap's, and has a word.
            let is_written =
                |block| unsafe { wipe::written(block, 0, size_of::<usize>()).is_some() };
            if harden::has::CHECK && is_written(block) {
                let size = page.block_size.get();
                check::written_before(
                    block,
                    format_args!("write after free of {block:p}, a block of {size} bytes"),
                );
            }
            // SAFETY: `api::hardened` checked that this is a live block before it put it there, and
            // nobody else has it. Only the holder of the heap that owns the page comes to
            // `free_local`.
            unsafe {
                if page.owner() == self.owner() {
                    self.free_local(page, block.cast());
                } else {
                    self.outgoing.add(self, page, block.cast());
                }
            }
        }
    }

    /// Gives up what is wholly free: retired pages, cached pages and cached large blocks. The
    /// caller is inside, or keeps the holder outside (`heap` rule 3). O(classes).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) fn give_up_unused(&self) {
        for class in 0..CLASSES {
            if let Some(page) = self.queue[class].first()
                && page.state.get() == PageState::Retired
            {
                self.queue[class].remove(page);
                self.end_page(class, page, 0);
            }
        }
        self.large.empty(&self.home);
        self.give_up_cached();
    }

    /// Gives up the cached pages.
    fn give_up_cached(&self) {
        while let Some(page) = self.cached.pop() {
            self.cached_len.set(self.cached_len.get() - 1);
            // SAFETY: `end_page` closed the page when it cached it, so it is empty. The heap owns
            // its slots, and `pop` took it off the only list that had it.
            unsafe { self.home.release(page, 1) };
            self.home.note_small(-1);
        }
    }
}
