//! Candidates: pages with few used blocks, which the heap parks after a while (`parked`).

use crate::backend::check;
use crate::backend::page::{Block, FIRST_LISTED, Meta, PageState};
use crate::heap::reclaim::{LONGEST, parked};
use crate::heap::{CANDIDATES, Heap};
use crate::proto::inbox::Link;
use core::ptr::null_mut;

impl Heap {
    /// Makes a page with few used blocks a candidate. The heap parks it after `CANDIDATES` further
    /// ones.
    pub(in crate::heap) fn make_candidate(&self, class: usize, page: &Meta) {
        if self.queue[class].begins_with(page) {
            return; // The current page stays with the heap.
        }
        page.state.set(PageState::Candidate);
        let i = self.oldest.get() as usize % CANDIDATES;
        self.oldest.set(i as u32 + 1);
        let oldest = self.candidates[i].replace(page.raw());
        // SAFETY: candidates are null or pages of this heap: `withdraw` removes a page from them
        // before the heap gives the page up.
        if let Some(oldest) = unsafe { oldest.as_ref() } {
            self.park(oldest);
        }
    }

    /// Parks a candidate, unless it has become the current page or another thread holds the lock.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) fn park(&self, page: &Meta) {
        let class = usize::from(page.class.get());
        page.state.set(PageState::Queue);
        if self.queue[class].begins_with(page) {
            return; // The candidate has become the current page.
        }
        if self.take_back(class, page) {
            return self.unfull_or_empty(page);
        }
        self.queue[class].remove(page);
        // SAFETY: this heap owns the page, which has just left the queue and is no candidate. The
        // heap uses it again only if it is not parked.
        if unsafe { parked::park(page) } {
            self.pages.set(self.pages.get() - 1);
            self.counts.parked.add(1);
            self.set_released(true);
        } else {
            self.queue[class].push_second(page);
        }
    }

    /// Moves the blocks of `page` from the heap's list to the list of the page: the next owner of
    /// the page must not wait for what this heap keeps. A list of small blocks is of one page of
    /// the heap, mostly the first of its queue, so only the first is looked at. True: the page is
    /// empty now. O(blocks on the list).
    fn take_back(&self, class: usize, page: &Meta) -> bool {
        let list = &self.owner.front.lists[class].free;
        let (mut last, mut block): (*mut Block, _) = (null_mut(), list.get());
        let most = match class {
            FIRST_LISTED.. => LONGEST,
            // There the first link may be wrong: see `Heap::take_listed`.
            _ if self.inherited.get() => 0,
            _ => 1,
        };
        let blocks = check::Carved::of(page);
        for _ in 0..most {
            if block.is_null() {
                break;
            }
            // SAFETY: the block is on this heap's list of the class, and no one else uses it. This
            // heap owns the page.
            unsafe {
                let next = Heap::checked_next(class, block);
                if blocks.has(block) {
                    // The program did not get the block from the list: see `collect`.
                    self.unlist(class, 1);
                    if last.is_null() {
                        list.set(next);
                    } else {
                        Block::set_next(last, next);
                    }
                    if Heap::push_freed(page, block) {
                        return true;
                    }
                } else {
                    last = block;
                }
                block = next;
            }
        }
        false
    }

    /// Removes the page from the candidates if it is one.
    pub(in crate::heap) fn withdraw(&self, page: &Meta) {
        if page.state.get() == PageState::Candidate {
            page.state.set(PageState::Queue);
            for candidate in self.candidates.iter().filter(|c| c.get() == page.raw()) {
                candidate.set(null_mut());
            }
        }
    }
}
