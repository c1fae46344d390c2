//! Whole pages in remote frees: pages that are given up without their owner.
//!
//! Only the owner may touch the lists of a page. But if other threads have freed *all* blocks of a
//! full page, and one thread has them all, no list of the owner has any of them. So the owner
//! cannot reach the page any more, and that thread may end it.
//!
//! - The thread that frees the blocks may have them all in one remote batch
//!   (`Outgoing::close`).
//! - A purge gathers them: it takes the inbox of a heap whose thread has not merged it for a while,
//!   joins the batches of each page, ends the pages of which it has all blocks, and puts the other
//!   batches back ([`give_up_in_inbox`]). So the memory of a thread that sleeps comes back.
//!
//! Rules
//! 1. A thread that has all `cap` blocks of a page finds `PageState::Full` only after the owner has
//!    taken the page out of its queue (`proto::page_state` rule 1). From then on the owner comes to the page by
//!    a block of it alone, and no other thread or list has one.
//! 2. `remote_link` of a page of blocks that travel in batches belongs to the thread that makes a
//!    pass of the purge. It is null outside of [`give_up_in_inbox`].

use crate::backend::check;
use crate::backend::owner::{Owner, inbox_of};
use crate::backend::page::Meta;
use crate::backend::remote_batch::RemoteBatch;
use crate::base::sync::{AtomicUsize, Ordering::Relaxed};
use crate::heap::reclaim::parked;
use crate::heap::shared::SharedHeap;
use crate::proto::inbox::Link;
use core::ptr::null_mut;

/// Bytes of remote frees that wait in inboxes, as far as senders have told ([`note_waiting`]).
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// From so many waiting bytes on a sender tells of them.
const MUCH: usize = 4 << 20;

/// Bytes that may come back when a purge looks into inboxes. A hint.
pub fn waiting_bytes() -> usize {
    WAITING.load(Relaxed)
}

/// Notes that the remote frees in an inbox grew from `before` to `now` bytes. True: a purge may
/// have work.
pub fn note_waiting(before: usize, now: usize) -> bool {
    let crosses = before / MUCH != now / MUCH;
    if crosses {
        WAITING.fetch_max(now, Relaxed);
    }
    crosses
}

/// True if a batch has all blocks of its page, and the page is a full one of a heap.
///
/// # Safety
/// The batch belongs to the caller, is no page list, and is of `page`.
pub unsafe fn has_all(batch: *mut RemoteBatch, page: &Meta) -> bool {
    // SAFETY: the batch belongs to the caller, and is no page list.
    let length = unsafe { RemoteBatch::length(batch) };
    length == page.cap.get() && page.state.is_full_for_others()
}

/// Ends a page.
///
/// # Safety
/// The batch belongs to the caller, and [`has_all`] said true of the two.
pub unsafe fn give_up(batch: *mut RemoteBatch, page: &Meta) {
    if check::CHECKED {
        // SAFETY: the batch belongs to the caller.
        unsafe { RemoteBatch::check_all(batch, page) };
    }
    // SAFETY: this thread has all blocks of the page, which is in no list (rule 1).
    unsafe { parked::end_whole(page) };
}

/// Gives up the whole pages in the inbox of a heap, whoever holds it. Returns their bytes. The
/// caller makes a pass of the purge. O(batches).
pub fn give_up_in_inbox(heap: &SharedHeap, goes_on: impl Fn() -> bool) -> usize {
    let owner = heap.owner();
    let mut batch = owner.inbox().take();
    let mut gathered = Chain::default();
    let mut rest = Chain::default();
    let mut seen = 0_u32;
    while !batch.is_null() {
        seen = seen.wrapping_add(1);
        // SAFETY: `take` gave the batches to this thread (`remote_batch` rule 1). Each goes to one
        // of the two chains, joins one that is there, or is sent on.
        batch = unsafe {
            let next = RemoteBatch::next(batch);
            if RemoteBatch::is_block(batch) && (!seen.is_multiple_of(64) || goes_on()) {
                gather(owner, batch, &mut gathered);
            } else {
                rest.push(batch);
            }
            next
        };
    }
    let mut given = 0;
    let mut batch = gathered.first;
    while !batch.is_null() {
        // SAFETY: the chain has batches of this thread. Each is ended with its page, or goes to
        // `rest`.
        batch = unsafe {
            let next = RemoteBatch::next(batch);
            let page = RemoteBatch::page(batch);
            page.remote_link.set(null_mut());
            if has_all(batch, page) {
                given += page.bytes();
                give_up(batch, page);
            } else {
                rest.push(batch);
            }
            next
        };
    }
    if !rest.first.is_null() {
        // SAFETY: the batches are this thread's, which gives them up, and the links lead from the
        // first to the last.
        unsafe { owner.inbox().push_chain(rest.first, rest.last) };
    }
    given
}

/// Joins a batch with the one of its page that was gathered before, or adds it to the gathered
/// ones. A batch of a page that has another owner by now goes there.
///
/// # Safety
/// The batch belongs to the caller, who gives it up, and is no page list.
unsafe fn gather(owner: &Owner, batch: *mut RemoteBatch, gathered: &mut Chain) {
    // SAFETY: the batch belongs to the caller. `remote_link` is this thread's (rule 2), so it has a
    // batch of this page that `gathered` has. The owner of a page lives for ever (`owner` rule 1).
    unsafe {
        let page = RemoteBatch::page(batch);
        let now = page.owner();
        if now != owner.as_word() {
            if check::CHECKED && now.is_null() {
                check::corrupt(batch.cast());
            }
            return inbox_of(now).push_chain(batch, batch);
        }
        let first = page.remote_link.get().cast::<RemoteBatch>();
        if first.is_null() {
            page.remote_link.set(batch.cast());
            gathered.push(batch);
        } else {
            RemoteBatch::join(first, batch);
        }
    }
}

/// Batches that this thread has, linked.
struct Chain {
    first: *mut RemoteBatch,
    last: *mut RemoteBatch,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: null_mut(), last: null_mut() }
    }
}

impl Chain {
    /// Puts a batch before the others.
    ///
    /// # Safety
    /// The batch belongs to the caller, who gives it up.
    unsafe fn push(&mut self, batch: *mut RemoteBatch) {
        // SAFETY: the batch belongs to the caller.
        unsafe { RemoteBatch::set_next(batch, self.first) };
        if self.first.is_null() {
            self.last = batch;
        }
        self.first = batch;
    }
}

/// Gives up the whole pages in the inboxes of heaps of live threads that have not merged since the
/// last call. Returns their bytes.
pub fn give_up_all<'a>(heaps: impl Iterator<Item = &'a SharedHeap>, goes_on: impl Fn() -> bool + Copy) -> usize {
    let mut given = 0;
    let mut waiting = 0;
    for heap in heaps {
        let bytes = heap.owner().waiting_bytes();
        if bytes == 0 || !goes_on() {
            continue;
        }
        let merges = heap.counts().merges.get();
        if heap.merges_seen().swap(merges, Relaxed) != merges {
            waiting += bytes; // Its thread merges now and then.
            continue;
        }
        heap.owner().nothing_waits();
        given += give_up_in_inbox(heap, goes_on);
    }
    WAITING.store(waiting, Relaxed);
    given
}
