//! Remote frees, at the thread that frees: the block joins an open batch, goes to the parked pages,
//! stays with the thread, or begins a batch. The rules are those of `free`.

use super::free::free_slow;
use super::note_released;
use crate::backend::owner::Owner;
use crate::backend::page::{Block, Meta};
use crate::heap::{Heap, reclaim::parked};
use crate::thread::{self, ThreadState};

/// Frees a block of a page that another heap owns, or that is parked. A block that joins an open
/// batch needs no frame.
///
/// # Safety
/// The block is live, of `page`, whose owner was `owner`, and the caller's to free.
#[inline(always)]
pub(super) unsafe fn free_remote(block: *mut Block, page: &'static Meta, owner: *mut Owner) {
    // SAFETY: the caller gives up a live block of `page`. `heap` is this thread's.
    unsafe {
        if let Some(heap) = thread::heap()
            && !is_shared(heap, page, owner)
            && heap.outgoing.join(&heap.open, page, block)
        {
            return;
        }
        free_remote_slow(block, page, owner);
    }
}

/// Keeps a block of a class above `SMALL_MAX` on the list of the thread's heap. False: it is still
/// the caller's.
///
/// # Safety
/// As [`free_remote`], of a class that has `FIRST_LISTED` or more.
#[inline(always)]
pub(super) unsafe fn keep_remote(
    block: *mut Block,
    page: &'static Meta,
    owner: *mut Owner,
) -> bool {
    // SAFETY: the caller gives up a live block of `page`. `heap` is this thread's.
    thread::heap().is_some_and(|heap| unsafe { heap.keep_remote(page, owner, block) })
}

/// True if the page is parked, and the heap takes blocks of its class from such pages.
#[inline(always)]
fn is_shared(heap: &Heap, page: &Meta, owner: *mut Owner) -> bool {
    heap.shares(page.class.get().into()) && parked::is_owner(owner)
}

/// [`free_remote`] of a block that joins no batch.
///
/// # Safety
/// As [`free_remote`].
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe extern "C" fn free_remote_slow(block: *mut Block, page: &'static Meta, owner: *mut Owner) {
    // SAFETY: the caller gives up a live block of `page`. `heap` is this thread's. Owners are for
    // ever (`owner` rule 1).
    unsafe {
        match thread::state() {
            ThreadState::Live(heap) => {
                let is_free = if is_shared(heap, page, owner) {
                    free_parked(heap, page, block)
                } else {
                    heap.keep_scattered(page, owner, block)
                };
                if !is_free {
                    heap.outgoing.add(heap, page, block);
                    if heap.has_released() {
                        note_released(heap);
                    }
                }
            }
            // The thread's first call. It adopts a heap for its batches, as more frees will follow.
            // The adopted heap may own this very page: so the free begins anew.
            ThreadState::Empty if thread::with_heap(|_| Some(())).is_some() => {
                free_slow(block.cast(), 0)
            }
            ThreadState::Empty | ThreadState::Dead => Heap::send_one(page, owner, block),
        }
    }
}

/// Frees a block of a parked page at once. False: it is still the caller's.
///
/// # Safety
/// The block is live, of `page`, and the caller's to free; `heap` is this thread's.
#[cold]
#[inline(never)]
unsafe fn free_parked(heap: &Heap, page: &'static Meta, block: *mut Block) -> bool {
    // SAFETY: the caller gives up a live block of `page`, which the program had: so it counts as
    // one.
    let is_free = unsafe { heap.free_parked(page, block, 1) };
    if heap.has_released() {
        note_released(heap);
    }
    is_free
}
