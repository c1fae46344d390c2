//! Parked pages: pages that no heap owns. Their holes can be purged, and heaps can share them.
//!
//! Only the owner of a page may touch its lists, and the threads of an idle program make no calls.
//! So a heap parks a page when only a few of its blocks are used and some other pages have come to
//! that since. This module then owns the page:
//! - A lock guards its state. Threads free its blocks as remote frees, into the inbox of `OWNER`.
//!   A heap that shares frees them at once if no other thread has the lock ([`free`]).
//! - The purge gives its holes back ([`purge`](mod@purge)).
//! - The next heap that needs a page of this class takes it.
//!
//! A heap that shares gets its first blocks of a class from a page that all such heaps use
//! ([`share`]). Each gets a few blocks, so the blocks of many threads lie side by side. A shared
//! page with few used blocks is treated as one that a heap parked. A page that a heap parked can
//! become a shared one.
//!
//! Rules
//! 1. `LOCK` guards the lists, and the first lines (`page` rule 1) of the pages whose owner is
//!    `OWNER`.
//! 2. A page is in the list of its class that its `parked_list` says: see [`ParkedList`].
//! 3. No thread makes a system call under the lock, but to claim a page or to give one up, and for
//!    the barriers of [`park_unused`]. The purge releases the lock while it gives memory back.
//!    Meanwhile the page has a second owner, `PURGER` ([`purge`](mod@purge) rule 2).
//! 4. Heaps only try the lock, because the thread that has it may not run. Only [`share`] waits for
//!    it, and passes of the purge do ([`Locked::wait`]). Without, a heap that shares would claim a
//!    page of its own, and so would each heap that comes meanwhile.

mod counts;
mod lists;
mod purge;
mod share;
mod unused;

use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::owner::Owner;
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{Block, Meta, PageState, ParkedList};
use crate::backend::remote_batch::RemoteBatch;
use crate::backend::segment;
use crate::base::size_class::CLASSES;
use crate::base::sync::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use crate::base::usage;
use crate::heap::reclaim::holes;
use crate::os;
use crate::policy;
use crate::proto::inbox::Link;
use crate::proto::lock::{Guard, Lock};
use core::ptr::null_mut;
use counts::{note_end, note_whole};
use lists::{CLASSES_HERE, PURGED_SLOTS, STATE};

pub use counts::{
    GIVEN, RECEIVED, RETURNED, WHOLE, given, note_whole_end, received, reset_counts, returned,
    whole,
};
pub use lists::FRESH_SLOTS;
pub use purge::{purge, purge_oldest};
pub use share::share;
pub use unused::park_unused;

#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
#[unsafe(link_section = ".data.hakmem")]
static OWNER: Owner = Owner::new();
/// The owner of the page that is out.
static PURGER: Owner = Owner::new();
/// The page of which the purge gives memory back, or null.
#[unsafe(link_section = ".data.hakmem")]
static OUT: AtomicPtr<Meta> = AtomicPtr::new(null_mut());

/// Set in the child of a fork that interrupted a change under the lock. Parked pages are not used
/// any more.
#[unsafe(link_section = ".data.hakmem")]
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The parked pages, for the thread that has the lock. A function that takes one needs no promise
/// of its caller that the lock is held.
struct Locked {
    _guard: Guard<'static>,
}

/// True for the owners of parked pages: `OWNER`, and that of the page which the purge has now.
#[inline]
pub fn is_owner(owner: *mut Owner) -> bool {
    owner == OWNER.as_word() || owner == PURGER.as_word()
}

/// The largest number of used blocks of a page of `cap` blocks in the lists `Unpurged` and
/// `Purged`: so few that they leave holes.
pub fn most_out(cap: u32) -> u8 {
    policy::PARK_BLOCKS.get().min(cap / 4).min(255) as u8
}

/// Bytes of the pages with few used blocks, and an upper bound of those of them that a purge of
/// holes could give back.
pub fn bytes() -> (usize, usize) {
    let fresh = FRESH_SLOTS.load(Relaxed) * SLOT;
    (fresh + PURGED_SLOTS.load(Relaxed) * SLOT, fresh)
}

/// True if a purge of holes may give something back.
#[inline]
pub fn has_unpurged() -> bool {
    FRESH_SLOTS.load(Relaxed) != 0
}

/// An upper bound of the bytes that a purge of holes could give back. Of pages that were given up,
/// nobody merges what waits for them.
pub fn free_bytes() -> usize {
    if GIVEN_UP.load(Relaxed) {
        return 0;
    }
    FRESH_SLOTS.load(Relaxed) * SLOT + OWNER.waiting_bytes() + PURGER.waiting_bytes()
}

/// The page of which the purge gives memory back. Certain only under the lock.
fn out() -> Option<&'static Meta> {
    // SAFETY: the pointer is null or leads to metadata, which is accessible for ever (`arena` rule
    // 4), and all its fields may be shared.
    unsafe { OUT.load(Relaxed).as_ref() }
}

/// Calls `f` for each page in a list, and for the one that is out, with its class and the number of
/// its free blocks. O(pages).
pub fn each_page(mut f: impl FnMut(usize, u64)) {
    if GIVEN_UP.load(Relaxed) {
        return;
    }
    let Some(_pages) = LOCK.lock_patiently().map(Locked::new) else { return };
    for class in 0..CLASSES {
        for lists in &STATE.lists {
            let mut next = lists[class].first();
            while let Some(page) = next {
                next = PageQueue::after(page);
                f(class, page.waiting());
            }
        }
    }
    // The purge changes none of the fields that `waiting` reads (`purge` rule 3).
    if let Some(page) = out() {
        f(page.class.get().into(), page.waiting());
    }
}

/// Gives up all parked pages, in the child of a fork that interrupted a change under the lock. The
/// lists may be inconsistent, so the pages stay parked for ever, and their freed blocks are not
/// used again.
pub fn give_up_all() {
    GIVEN_UP.store(true, Relaxed);
    FRESH_SLOTS.store(0, Relaxed);
    PURGED_SLOTS.store(0, Relaxed);
}

/// True if there is neither a remote free nor a page of `classes` that a heap may take. Remote
/// frees may be for pages that a heap has taken meanwhile.
fn is_idle(classes: u64) -> bool {
    GIVEN_UP.load(Relaxed) || CLASSES_HERE.load(Relaxed) & classes == 0 && nothing_came()
}

/// True if a merge would find no remote frees (`purge` rule 4).
fn nothing_came() -> bool {
    OWNER.inbox().is_empty() && (PURGER.inbox().is_empty() || out().is_some())
}

impl Locked {
    fn new(guard: Guard<'static>) -> Self {
        Self { _guard: guard }
    }

    /// Waits for the lock. None: an error that ends the process was reported, and another thread
    /// has the lock. That thread may wait for this one, in the program's handler of SIGABRT.
    fn wait(me: u32) -> Option<Self> {
        LOCK.lock_unless(me, os::is_ending).map(Self::new)
    }

    /// Merges remote frees. O(batches).
    #[unsafe(link_section = ".text.hot.hakmem")]
    fn merge(&self) {
        for to in [&OWNER, &PURGER] {
            // What comes for the page that is out waits until the page is back (`purge` rule 4).
            let waits = core::ptr::eq(to, &PURGER) && out().is_some();
            if to.inbox().is_empty() || waits {
                continue;
            }
            // SAFETY: this thread has the lock, so it acts as the owner of the parked pages (rule
            // 1). It takes the second inbox only while no page is out, and then `OWNER` owns all
            // parked pages. `take` gives it the batches.
            unsafe {
                OWNER.merge(to.inbox().take(), |page, length, block| {
                    RECEIVED[usize::from(page.class.get())].fetch_add(u64::from(length), Relaxed);
                    self.after_free(page, block);
                });
            }
        }
    }

    /// Handles frees of blocks of the page, `block` among them. True: the page was empty, and was
    /// given up.
    fn after_free(&self, page: &Meta, block: *mut u8) -> bool {
        match page.list.until_slow.get() {
            0 => {
                self.unlink(page);
                // SAFETY: the page has just left its list. The countdown is zero, so no block of it
                // is used.
                unsafe { self.give_up(page) };
                return true;
            }
            ..0 if check::CHECKED => check::double_free(block, page),
            _ if page.parked_list.get() == ParkedList::Lost => {}
            // Else each free between purges would cost a purge of its own.
            _ if page.parked_list.get() == ParkedList::Purged && !holes::is_worth_it(page) => {}
            used if used <= i32::from(most_out(page.cap.get())) => {
                page.stamp.store(os::now_ms(), Relaxed);
                self.relink(page, ParkedList::Unpurged);
            }
            _ => {
                self.relink(page, ParkedList::Shared);
                self.note_page_to_take(page);
            }
        }
        false
    }

    /// Gives an empty page back to its segment.
    ///
    /// # Safety
    /// The page is parked, but in no list, and no block of it is used.
    unsafe fn give_up(&self, page: &Meta) {
        // SAFETY: this thread owns the page (rule 1), which is in no list and has no used block.
        unsafe { end(page) };
    }
}

/// Ends a page without used blocks, and gives its slots back to their segment. The caller is not
/// the holder of the heap that claimed it, so no heap counts this.
///
/// # Safety
/// The calling thread owns the page, which is in no list, and no block of it is used.
unsafe fn end(page: &Meta) {
    let bytes = note_end(page);
    usage::add(-bytes, 0);
    let span = page.span.load(Relaxed);
    if span == 1 {
        segment::note_carved(-bytes);
        segment::note_small(-1);
    }
    page.close();
    // SAFETY: this thread owns the page (rule 1), which is in no list and has no used block.
    // `close` ended it (`page` rule 2).
    unsafe { segment::release(page, span) };
}

/// Ends a full page of a heap, all blocks of which other threads have freed.
///
/// # Safety
/// The calling thread has all blocks of the page, and no list has the page (`whole` rule 1).
pub unsafe fn end_whole(page: &Meta) {
    note_whole(page);
    // SAFETY: nobody else can reach the page any more, so it is this thread's.
    unsafe { end(page) };
}

/// Parks a page. False: the caller keeps it. O(1).
///
/// # Safety
/// The calling thread holds the heap that owns the page. The page is in no queue any more, and the
/// heap does not use it after a park that returns true.
pub unsafe fn park(page: &Meta) -> bool {
    if GIVEN_UP.load(Relaxed) {
        return false;
    }
    let Some(pages) = LOCK.try_lock().map(Locked::new) else { return false };
    page.stamp.store(os::now_ms(), Relaxed);
    page.state.set(PageState::Parked);
    page.set_owner(OWNER.as_word());
    pages.link(page, ParkedList::Unpurged);
    true
}

/// The result of [`free`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    /// The block is free, or the next holder of the lock will free it.
    Yes,
    /// The block is free, and so are all others of its page. The page was given up.
    WithItsPage,
    /// The caller still has the block: a heap took the page meanwhile, or the block cannot be sent
    /// although another thread holds the lock or purges the page.
    No,
}

/// Frees a block of a parked page at once, so that other heaps can have it. A remote batch would
/// stay with its thread, maybe for long. `received` is 1, or 0 for a block that the program never
/// had. O(1), and the merge of remote frees.
///
/// # Safety
/// The block is of `page`, on no list, and the caller's to free.
pub unsafe fn free(page: &Meta, block: *mut Block, received: u64) -> Freed {
    let pages = LOCK.try_lock().map(Locked::new);
    let Some(pages) = pages.filter(|_| page.owner() != PURGER.as_word()) else {
        if received == 0 {
            return Freed::No; // The owner would count a sent block as received.
        }
        check::check_start(block, page);
        // SAFETY: the caller gives up a block of `page`. The next holder of the lock merges it, or
        // sends it on to the owner that the page has then.
        unsafe { RemoteBatch::send_one(page, block, OWNER.inbox()) };
        return Freed::Yes;
    };
    if page.owner() != OWNER.as_word() || GIVEN_UP.load(Relaxed) {
        return Freed::No;
    }
    if check::CHECKED && !check::is_block_of(page, block) {
        check::not_a_block(block.cast(), Some(page));
    }
    if check::CHECKED && page.list.free.get() == block {
        check::double_free(block.cast(), page);
    }
    // SAFETY: the caller gives the block up, so its first word may hold a link. This thread holds
    // the lock, and the check above found that the page is parked (rule 1).
    unsafe { Block::set_next(block, page.list.free.replace(block)) };
    page.list.until_slow.set(page.list.until_slow.get() - 1);
    RECEIVED[usize::from(page.class.get())].fetch_add(received, Relaxed);
    let is_given_up = pages.after_free(page, block.cast());
    pages.merge();
    if is_given_up { Freed::WithItsPage } else { Freed::Yes }
}

/// Takes a parked page of `class` for `new_owner`. The page is in no queue yet. None: there is no
/// such page now, or another thread holds the lock. O(1), and the merge of remote frees, which may
/// give up empty pages so that they can be claimed.
///
/// # Safety
/// `new_owner` is the calling thread's heap. Other threads reach it through the page from now on.
pub unsafe fn unpark(class: usize, new_owner: &Owner) -> Option<&'static Meta> {
    if is_idle(1 << class) {
        return None;
    }
    let pages = Locked::new(LOCK.try_lock()?);
    pages.merge();
    let Some(page) = pages.page_to_take(class) else {
        CLASSES_HERE.fetch_and(!(1 << class), Relaxed);
        return None;
    };
    pages.unlink(page);
    page.state.set(PageState::Queue);
    page.give_to(new_owner);
    Some(page)
}

/// [`merge`] if no other thread has the lock.
pub fn try_merge() {
    if !is_idle(u64::MAX)
        && let Some(guard) = LOCK.try_lock()
    {
        Locked::new(guard).merge();
    }
}

/// Merges the remote frees of parked pages. Those of pages that a heap has taken go to that heap.
/// O(batches).
pub fn merge() {
    if !is_idle(u64::MAX)
        && let Some(pages) = Locked::wait(os::thread_token())
    {
        pages.merge();
    }
}

// Checkers have no stops.
#[cfg(all(test, not(any(miri, loom, shuttle))))]
mod tests;
