//! The end of all blocks of a way at once: `reset`, and the end of the heap.
//!
//! Rules
//! 1. Nobody uses a block of the way any more. So pages end with live blocks in them.
//! 2. Routed blocks stay (`program` rule 5). Of their pages only those without live blocks end.
//! 3. Frees of samples are counted after the lock is released (`program` rule 3).
//! 4. A reset keeps one page of each class, if it is one slot long and was used since the last
//!    reset: a program that resets a heap is about to use it alike. The other pages end. A heap
//!    with a reserve keeps none, as a page of one class would hold a slot that another one needs.
//!    The hardened build keeps none, so that a use of any block after the reset is found.

use super::{LOST, Locked, ORPHAN, ProgramHeap, Refusal, Way, registry};
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{Kind, Meta};
use crate::base::sync::Ordering::Relaxed;
use crate::harden;
use crate::profile;
use core::ptr::null_mut;

/// True for what rule 4 keeps.
fn is_worth_keeping(head: &Meta) -> bool {
    head.kind() == Kind::ProgramPage && head.span.load(Relaxed) == 1 && head.carved.get() != 0
}

impl ProgramHeap {
    /// Gives all own blocks back at once (rule 4). O(pages and larger blocks).
    ///
    /// # Safety
    /// Nobody uses an own block of the heap any more.
    pub unsafe fn reset(&'static self) -> Result<(), Refusal> {
        let locked = self.lock()?;
        let samples = locked.take_samples(Way::Own);
        let keeps = !harden::ON && self.reserve.is_empty();
        // SAFETY: the caller says that nobody uses an own block any more. This call has the lock.
        unsafe { locked.end_all(Way::Own, keeps) };
        drop(locked);
        profile::all_freed(samples);
        Ok(())
    }

    /// Ends the pages without live blocks, unless a thread is at the heap right now, or a block
    /// that a signal handler freed waits for its next call. The caller purges afterwards. O(pages).
    pub(super) fn end_unused(&'static self) {
        if let Some(locked) = self.try_lock() {
            locked.end_empty(Way::Own);
            locked.end_empty(Way::Routed);
        }
    }

    /// Deletes the heap: gives its own blocks back, and ends it once no routed block is live.
    /// False: a thread is in a scope of the heap, and nothing was done. Of a lost heap nothing can
    /// be given back. O(pages and larger blocks).
    ///
    /// # Safety
    /// The caller has the heap, and uses it no more. Nobody uses an own block of it any more.
    pub unsafe fn delete(&'static self) -> bool {
        let Ok(locked) = self.lock() else { return self.state.load(Relaxed) == LOST };
        if self.entered.get() != 0 {
            return false;
        }
        let samples = locked.take_samples(Way::Own);
        // SAFETY: the caller says that nobody uses an own block any more. This call has the lock,
        // and no thread is in a scope of the heap.
        unsafe { locked.end_all(Way::Own, false) };
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
    /// Ends all pages and larger blocks of a way, but for pages that it keeps (rule 4) if it
    /// `keeps` any.
    ///
    /// # Safety
    /// Nobody uses a block of them any more.
    unsafe fn end_all(&self, way: Way, keeps: bool) {
        self.end_guarded(way);
        let pages = self.pages(way);
        let keep_or_end = |head: &'static Meta| {
            if !keeps || !is_worth_keeping(head) {
                return self.end(head);
            }
            let queue = &pages.queues[usize::from(head.class.get())];
            if queue.first().is_some() {
                return self.end(head);
            }
            self.renew(head);
            queue.push(head);
        };
        for queue in &pages.queues {
            let Some(first) = queue.pop() else { continue };
            while let Some(head) = queue.pop() {
                self.end(head);
            }
            keep_or_end(first);
        }
        while let Some(head) = pages.full.pop() {
            keep_or_end(head);
        }
        let (blocks, bytes) = (pages.blocks.get(), pages.bytes.get());
        let figures = &self.heap.figures;
        figures.frees.add(blocks);
        figures.live.set(figures.live.get() - bytes);
        pages.blocks.set(0);
        pages.bytes.set(0);
    }

    /// Makes all blocks of a page free, in whatever order they were used.
    fn renew(&self, page: &Meta) {
        let used = i64::from(page.list.until_slow.replace(0)) * i64::from(page.block_size.get());
        self.note_in_pages(-used);
        page.list.free.set(null_mut());
        page.carved.set(0);
        page.zero.set(false);
    }

    /// Ends the pages of a way that have no live block.
    pub(super) fn end_empty(&self, way: Way) {
        for queue in &self.pages(way).queues {
            let mut next = queue.first();
            while let Some(page) = next {
                next = PageQueue::after(page);
                if page.list.until_slow.get() == 0 {
                    queue.remove(page);
                    self.end(page);
                }
            }
        }
    }
}
