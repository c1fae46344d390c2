//! Giving back: when memory is short, when the thread ends, and while the heap is idle.

use super::Heap;
use crate::backend::page::{self, Block, PageState};
use crate::backend::{check, segment};
use crate::base::size_class::CLASSES;
use crate::proto::inbox::Link;
use core::ptr::null_mut;

impl Heap {
    /// Gives up everything that is free: blocks in the lists go back to their pages, empty pages to their segments,
    /// batches to their owners. O(classes + blocks in lists).
    pub fn collect(&self) {
        self.busy(|| {
            self.receive_remote_frees();
            for class in 0..CLASSES {
                let mut block = self.owner.front.free[class].replace(null_mut());
                let mut unused = 0;
                while !block.is_null() {
                    let Some(page) = page::lookup(block.cast()) else { check::corrupt(block.cast()) };
                    let page = page.head_of_block();
                    // SAFETY: the heap's own list; the link is read before the block is pushed.
                    let next = unsafe { Block::next(block) };
                    // SAFETY: the block is free and this heap's. The page of one that was kept may have been parked.
                    unsafe {
                        if page.owner() == self.owner() {
                            self.free_local(page, block);
                        } else {
                            self.put_back(page, block);
                        }
                    }
                    block = next;
                    unused += 1;
                }
                // They were never used: neither handed out nor returned.
                self.counts.unlist(class, unused);
                if let Some(page) = self.queue[class].first()
                    && page.state.get() == PageState::Retired
                {
                    self.queue[class].remove(page);
                    self.give_up(class, page, 0);
                }
            }
            self.share_anew();
            self.end_samples();
            self.send_remote_frees();
            for candidates in &self.candidates {
                // SAFETY: the heap's own pages (see `withdraw`).
                if let Some(page) = unsafe { candidates.replace(null_mut()).as_ref() } {
                    self.park(page);
                }
            }
            self.large.empty();
            while let Some(page) = self.cached.pop() {
                self.cached_len.set(self.cached_len.get() - 1);
                // SAFETY: closed and empty since it was cached.
                unsafe { segment::release(page, 1) };
                segment::note_small(-1);
            }
            self.report_live();
        });
    }
}
