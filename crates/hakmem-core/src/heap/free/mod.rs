//! Frees: of blocks of the heap's own pages, merges of remote frees, and frees of threads without a
//! heap.

mod current;
mod listed;
pub(in crate::heap) mod remote;
pub(in crate::heap) mod scattered;
mod states;

use crate::backend::check;
use crate::backend::owner::{Owner, inbox_of};
use crate::backend::page::{Block, Meta};
use crate::backend::remote_batch::RemoteBatch;
use crate::base::renew::Renew;
use crate::base::sync::{AtomicU64, Ordering::Relaxed};
use crate::heap::Heap;
use crate::heap::counts::HeapEvent;
pub use listed::Beyond;

/// A heap that counts so many blocks of a class makes room in the counters, although it took no
/// list.
pub(in crate::heap) const MUCH: u32 = 1 << 31;

/// Frees by threads without a heap.
pub static HEAPLESS: AtomicU64 = AtomicU64::new(0);

/// Frees of blocks by threads without a heap, which no heap counts.
pub fn heapless_frees() -> u64 {
    HEAPLESS.load(Relaxed)
}

/// Resets this count, in the child of a fork.
pub fn reset_heapless_frees() {
    HEAPLESS.renew(0);
}

impl Heap {
    /// Frees a block of a page of the calling thread's heap onto the list of the page. True: the
    /// countdown of the page is over, and the caller must call `counted_down`.
    ///
    /// # Safety
    /// The calling thread holds the heap that owns the page. The block is of this page, on no list,
    /// and the caller's to free.
    #[inline(always)]
    #[must_use]
    pub unsafe fn push_freed(page: &Meta, block: *mut Block) -> bool {
        // SAFETY: the list is the caller's, who owns the page, and so is the block.
        unsafe { page.list.push(block, page.list.free.get()) }
    }

    /// Frees a block of a page of this heap, and handles the end of the countdown. `busy` is set.
    ///
    /// # Safety
    /// The calling thread holds this heap, which owns the page. The block is of this page, on no
    /// list, and the caller's to free.
    pub(in crate::heap) unsafe fn free_local(&self, page: &Meta, block: *mut Block) {
        // SAFETY: the caller promises that the thread holds this heap, which owns the page, and
        // gives up a block of it.
        if unsafe { Heap::push_freed(page, block) } {
            self.unfull_or_empty(page);
        }
    }

    /// Sends a block to `owner`, for a thread that has no heap.
    ///
    /// # Safety
    /// The block is live, of `page`, and the caller's to free. `owner` was read from `page`.
    pub unsafe fn send_one(page: &Meta, owner: *mut Owner, block: *mut Block) {
        check::check_start(block, page);
        HEAPLESS.fetch_add(1, Relaxed);
        // SAFETY: the caller gives up a live block of `page`. `owner` was read from a page, and an
        // owner stays for ever (`owner` rule 1).
        unsafe { RemoteBatch::send_one(page, block, inbox_of(owner)) };
    }

    /// Moves remote frees from the inbox to the lists of their pages (`heap` rule 4). O(batches).
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(in crate::heap) fn merge_remote_frees(&self) {
        // SAFETY: `take` gives the batches of this heap's inbox to this thread.
        unsafe { self.receive(self.owner.inbox().take()) };
        self.counts.merges.add(1);
    }

    /// Moves a chain of remote batches to the lists of their pages.
    ///
    /// # Safety
    /// The chain that begins with `batch` comes from this heap's inbox, and belongs to the caller.
    #[inline(always)]
    pub(in crate::heap) unsafe fn receive(&self, batch: *mut RemoteBatch) {
        // SAFETY: the calling thread holds this heap, as it has a `Heap` (`heap` rule 1). The
        // caller gives up the chain.
        let batches = unsafe {
            self.owner.merge(batch, |page, length, _| {
                // This must come before `unfull_or_empty`: that may give the page to another owner,
                // and then this heap must not read the class.
                self.counts.note(usize::from(page.class.get()), HeapEvent::Received, length);
                if page.list.until_slow.get() <= 0 {
                    self.unfull_or_empty(page);
                }
            })
        };
        self.counts.batches.add(batches);
    }
}
