//! The end of all blocks of a way at once: `reset`, and the end of the heap.
//!
//! Rules
//! 1. Nobody uses a block of the way any more. So pages end with live blocks in them.
//! 2. Routed blocks stay (`program` rule 5). Of their pages only those without live blocks end.
//! 3. Frees of samples are counted after the lock is released (`program` rule 3).

use super::{Locked, ORPHAN, ProgramHeap, Refusal, Way, registry};
use crate::backend::page::queue::PageQueue;
use crate::base::sync::Ordering::Relaxed;
use crate::profile;

impl ProgramHeap {
    /// Gives all own blocks back at once. O(pages and larger blocks).
    ///
    /// # Safety
    /// Nobody uses an own block of the heap any more.
    pub unsafe fn reset(&'static self) -> Result<(), Refusal> {
        let locked = self.lock()?;
        let samples = locked.take_samples(Way::Own);
        // SAFETY: the caller says that nobody uses an own block any more. This call has the lock.
        unsafe { locked.end_all(Way::Own) };
        drop(locked);
        profile::all_freed(samples);
        Ok(())
    }

    /// Deletes the heap: gives its own blocks back, and ends it once no routed block is live.
    /// False: a thread is in a scope of the heap, and nothing was done. O(pages and larger blocks).
    ///
    /// # Safety
    /// The caller has the heap, and uses it no more. Nobody uses an own block of it any more.
    pub unsafe fn delete(&'static self) -> bool {
        let Ok(locked) = self.lock() else { return false };
        if self.entered.get() != 0 {
            return false;
        }
        let samples = locked.take_samples(Way::Own);
        // SAFETY: the caller says that nobody uses an own block any more. This call has the lock,
        // and no thread is in a scope of the heap.
        unsafe { locked.end_all(Way::Own) };
        locked.end_empty(Way::Routed);
        locked.end_reserve();
        self.generation.store(self.generation.load(Relaxed).wrapping_add(1), Relaxed);
        self.state.store(ORPHAN, Relaxed);
        drop(locked);
        profile::all_freed(samples);
        registry::give_if_over(self);
        true
    }
}

impl Locked {
    /// Ends all pages and larger blocks of a way.
    ///
    /// # Safety
    /// Nobody uses a block of them any more.
    unsafe fn end_all(&self, way: Way) {
        self.end_guarded(way);
        let pages = self.pages(way);
        for queue in pages.queues.iter().chain([&pages.full]) {
            while let Some(head) = queue.pop() {
                self.end(head);
            }
        }
        let (blocks, bytes) = (pages.blocks.get(), pages.bytes.get());
        let figures = &self.heap.figures;
        figures.frees.add(blocks);
        figures.live.set(figures.live.get() - bytes);
        pages.blocks.set(0);
        pages.bytes.set(0);
    }

    /// Ends the pages of a way that have no live block.
    pub(super) fn end_empty(&self, way: Way) {
        for queue in &self.pages(way).queues {
            let mut next = queue.first();
            while let Some(page) = next {
                next = PageQueue::after(page);
                if page.until_slow.get() == 0 {
                    queue.remove(page);
                    self.end(page);
                }
            }
        }
    }
}
