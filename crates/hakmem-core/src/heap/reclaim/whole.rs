//! Whole pages in remote frees: pages that are given up without their owner.
//!
//! Only the owner may touch the lists of a page. But if other threads have freed *all* blocks of a
//! full page, and one thread has them all, no list of the owner has any of them. So the owner
//! cannot reach the page any more, and that thread may end it.
//!
//! - The thread that frees the blocks may have them all in one remote batch
//!   (`Outgoing::close`). Its heap may cache the page then (`Heap::end_whole`).
//! - A purge gathers them: it takes the inbox of a heap whose thread has not merged it for a while,
//!   joins the batches of each page, ends the pages of which it has all blocks, and puts the other
//!   batches back ([`Gathered`]). So the memory of a thread that sleeps comes back.
//!
//! Rules
//! 1. A thread that has all `cap` blocks of a page finds `PageState::Full` only after the owner has
//!    taken the page out of its queue (`proto::page_state` rule 1). From then on the owner comes to
//!    the page by a block of it alone, and no other thread or list has one.
//! 2. `remote_link` of a page of blocks that travel in batches belongs to the thread that makes a
//!    pass of the purge. It is null where there is no [`Gathered`]. In the child of a fork it may
//!    lead to a batch that a pass of another thread had. That batch is lost there, and so is each
//!    one that a pass of the child joins with it.

use crate::backend::arena;
use crate::backend::check;
use crate::backend::owner::{Owner, inbox_of};
use crate::backend::page::Meta;
use crate::backend::remote_batch::RemoteBatch;
use crate::base::sync::{Ordering::Relaxed, plain::AtomicUsize};
use crate::heap::reclaim::parked;
use crate::heap::shared::SharedHeap;
use crate::proto::inbox::{Link, MOST_WAITING};
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
    let crosses = before / MUCH != now.min(MOST_WAITING) / MUCH;
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

/// Ends a page, by `end`, and notes that in its heap.
///
/// # Safety
/// The batch belongs to the caller, and [`has_all`] said true of the two.
pub unsafe fn give_up(batch: *mut RemoteBatch, page: &Meta, end: impl FnOnce(&Meta)) {
    if check::CHECKED {
        // SAFETY: the batch belongs to the caller.
        unsafe { RemoteBatch::check_all(batch, page) };
    }
    // SAFETY: the batch belongs to the caller, and has blocks of the page, so it is no page list.
    unsafe { RemoteBatch::end(batch) };
    // SAFETY: only a heap makes its page `Full`, and who parks a page changes that first. So the
    // owner is the first field of a heap, which is never freed (`owner` rule 1).
    unsafe { &*arena::at(page.owner().addr()).cast::<SharedHeap>() }.note_ended();
    end(page);
}

/// The remote frees of an inbox, with one batch for each page of the owner.
pub struct Gathered {
    owner: &'static Owner,
    batches: Chain,
    /// Page lists, and what was left when time was short.
    rest: Chain,
}

impl Gathered {
    /// Takes all that is in the inbox of `owner`, whoever that is. The caller makes a pass of the
    /// purge. O(batches).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn take(owner: &'static Owner, goes_on: impl Fn() -> bool) -> Self {
        let mut this = Self { owner, batches: Chain::default(), rest: Chain::default() };
        let mut batch = owner.inbox().take();
        let (mut seen, mut is_short) = (0_u32, false);
        while !batch.is_null() {
            seen = seen.wrapping_add(1);
            is_short |= seen.is_multiple_of(64) && !goes_on();
            // SAFETY: `take` gave the batches to this thread (`remote_batch` rule 1). Each goes to
            // one of the two chains, joins one that is there, or is sent on.
            batch = unsafe {
                let next = RemoteBatch::next(batch);
                if !RemoteBatch::is_block(batch) || is_short {
                    RemoteBatch::page(batch); // It ends the process if `next` is no address.
                    this.rest.push(batch);
                } else {
                    this.add(batch);
                }
                next
            };
        }
        this
    }

    /// Joins a batch with the one of its page that was gathered before, or adds it to the gathered
    /// ones. A batch of a page that has another owner by now goes there.
    ///
    /// # Safety
    /// The batch belongs to the caller, who gives it up, and is no page list.
    unsafe fn add(&mut self, batch: *mut RemoteBatch) {
        // SAFETY: the batch belongs to the caller. `remote_link` is this thread's (rule 2), so it
        // has a batch of this page that is in `batches`. The owner of a page lives for ever
        // (`owner` rule 1).
        unsafe {
            let page = RemoteBatch::page(batch);
            let now = page.owner();
            if now != self.owner.as_word() {
                if check::CHECKED && now.is_null() {
                    check::corrupt(batch.cast());
                }
                inbox_of(now).push_chain(batch, batch, 0);
                return;
            }
            let first = page.remote_link.get().cast::<RemoteBatch>();
            if first.is_null() {
                page.remote_link.set(batch.cast());
                self.batches.push(batch);
            } else {
                let is_there = first == batch;
                if !is_there {
                    RemoteBatch::join(first, batch);
                }
                // Two threads that free one block may make a ring of the chain, which has no end.
                if check::CHECKED && (is_there || RemoteBatch::length(first) > page.carved.glance())
                {
                    check::double_free(batch.cast(), page);
                }
            }
        }
    }

    /// The number of gathered blocks of a page of this owner.
    pub fn of(&self, page: &Meta) -> u32 {
        let batch = page.remote_link.get().cast::<RemoteBatch>();
        if batch.is_null() || !RemoteBatch::fits(page.block_size.get()) {
            return 0;
        }
        // SAFETY: `remote_link` leads to a batch of `batches` (rule 2), which belong to this
        // thread.
        unsafe { RemoteBatch::length(batch) }
    }

    /// Takes out the batches of those pages of which `is_due` says so. They are a chain of this
    /// thread's from then on. O(batches).
    pub fn take_out(
        &mut self,
        mut is_due: impl FnMut(*mut RemoteBatch, &'static Meta) -> bool,
    ) -> *mut RemoteBatch {
        let (mut due, mut kept) = (Chain::default(), Chain::default());
        let mut batch = self.batches.first;
        while !batch.is_null() {
            // SAFETY: the chain has batches of this thread. Each goes to one of the two chains.
            batch = unsafe {
                let next = RemoteBatch::next(batch);
                let page = RemoteBatch::page(batch);
                if is_due(batch, page) {
                    page.remote_link.set(null_mut());
                    due.push(batch);
                } else {
                    kept.push(batch);
                }
                next
            };
        }
        self.batches = kept;
        due.first
    }

    /// Takes back the batches of a chain that [`Gathered::take_out`] returned.
    pub fn add_again(&mut self, mut batch: *mut RemoteBatch) {
        while !batch.is_null() {
            // SAFETY: the chain has batches of this thread.
            batch = unsafe {
                let next = RemoteBatch::next(batch);
                RemoteBatch::page(batch); // It ends the process if `next` is no address.
                self.rest.push(batch);
                next
            };
        }
    }

    /// Ends the pages of which all blocks were gathered. Returns their bytes. O(batches).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn end_whole(&mut self) -> usize {
        // SAFETY: `take_out` passes batches of this thread with their pages.
        let mut batch = self.take_out(|batch, page| unsafe { has_all(batch, page) });
        let mut given = 0;
        while !batch.is_null() {
            // SAFETY: the chain has batches of this thread, and `has_all` said true of each. Each
            // is ended with its page.
            batch = unsafe {
                let next = RemoteBatch::next(batch);
                let page = RemoteBatch::page(batch);
                given += page.bytes();
                // This thread has all blocks of the page, which is in no list (rule 1).
                give_up(batch, page, |page| parked::end_whole(page));
                next
            };
        }
        given
    }

    /// Puts the batches back into the inboxes of the owners that their pages have now.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn put_back(mut self) {
        let owner = self.owner;
        // SAFETY: the batches are this thread's, which gives them up. `take_out` passes them with
        // their pages, and leaves those in `batches` that stay with `owner`. The owner of a page
        // lives for ever (`owner` rule 1).
        unsafe {
            let mut batch = self.take_out(|_, page| {
                page.remote_link.set(null_mut());
                page.owner() != owner.as_word()
            });
            while !batch.is_null() {
                let next = RemoteBatch::next(batch);
                inbox_of(RemoteBatch::page(batch).owner()).push_chain(batch, batch, 0);
                batch = next;
            }
            for chain in [self.batches, self.rest] {
                if !chain.first.is_null() {
                    owner.inbox().push_chain(chain.first, chain.last, 0);
                }
            }
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
pub fn give_up_all(
    heaps: impl Iterator<Item = &'static SharedHeap>,
    goes_on: impl Fn() -> bool + Copy,
) -> usize {
    let mut given = 0;
    let mut waiting = 0;
    // What senders tell of during the loop stays: the pass may have looked there already.
    WAITING.store(0, Relaxed);
    for heap in heaps {
        let bytes = heap.owner().waiting_bytes();
        if bytes == 0 {
            continue;
        }
        if !goes_on() {
            waiting += bytes; // The next pass looks here.
            continue;
        }
        let merges = heap.counts().merges.get();
        if heap.merges_seen().swap(merges, Relaxed) != merges {
            waiting += bytes; // Its thread merges now and then.
            continue;
        }
        let mut gathered = Gathered::take(heap.owner(), goes_on);
        given += gathered.end_whole();
        gathered.put_back();
    }
    WAITING.fetch_max(waiting, Relaxed);
    given
}

// Miri has no fork, and models have their own fork.
#[cfg(all(test, not(any(miri, loom, shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use crate::backend::arena::SLOT;
    use crate::testing::in_child;

    /// Runs `f` with the calling thread's heap. Another thread has freed all blocks but one of each
    /// of 200 of its pages.
    fn with_batches(f: impl FnOnce(&'static SharedHeap) + Send) {
        const SIZE: usize = 1000;
        in_child(|| {
            let take = |_| {
                // SAFETY: `malloc` takes any size.
                unsafe { crate::api::c::malloc(SIZE) }.expose_provenance()
            };
            let blocks: std::vec::Vec<usize> = (0..200 * SLOT / SIZE).map(take).collect();
            let is_first = |pair: &&[usize]| pair[0] / SLOT != pair[1] / SLOT;
            let others: std::vec::Vec<_> =
                blocks.windows(2).filter(|pair| !is_first(pair)).map(|pair| pair[1]).collect();
            let free = |&block: &usize| {
                // SAFETY: the test frees each block once.
                unsafe { crate::api::c::free(crate::os::at(block)) };
            };
            // The thread sends its batches at its end, so the test joins it.
            let frees = || others.iter().for_each(free);
            std::thread::scope(|scope| scope.spawn(frees).join().unwrap());
            f(crate::thread::with_heap(Some).unwrap().shared());
        });
    }

    /// Each 64th batch asks whether time is short. Once it is, the rest stays as it is.
    #[test]
    fn what_is_gathered_ends_when_time_is_short() {
        with_batches(|heap| {
            let gathered = Gathered::take(heap.owner(), || false);
            let mut count = 0;
            let mut batch = gathered.batches.first;
            while !batch.is_null() {
                count += 1;
                // SAFETY: the chain has batches of this thread.
                batch = unsafe { RemoteBatch::next(batch) };
            }
            // Some batches are of one page.
            assert!((1..64).contains(&count), "{count}");
            gathered.put_back();
        });
    }

    /// The pass after one that had to end looks for what waits.
    #[test]
    fn what_waits_when_time_is_short_is_not_forgotten() {
        with_batches(|heap| {
            let waits = heap.owner().waiting_bytes();
            assert!(waits >= MUCH && waiting_bytes() >= MUCH);
            give_up_all(core::iter::once(heap), || false);
            assert_eq!(waiting_bytes(), waits);
        });
    }

    /// A sender tells of a full inbox while a pass looks into others. The pass keeps that.
    #[test]
    fn what_comes_during_a_pass_is_not_forgotten() {
        in_child(|| {
            let heaps = core::iter::from_fn(|| {
                assert!(note_waiting(0, MUCH));
                None
            });
            assert_eq!(give_up_all(heaps, || true), 0);
            assert_eq!(waiting_bytes(), MUCH);
            give_up_all(core::iter::empty(), || true);
            assert_eq!(waiting_bytes(), 0, "the next pass found nothing");
        });
    }
}
