//! The purge of holes. It gives memory back without the lock, so no thread waits for that.
//!
//! ```text
//! under the lock     takes a page out of its list            the page's owner: OWNER → PURGER
//! without it         gives back what no used block needs     PURGER; frees go to its inbox
//! under the lock     lists the page, and merges the frees    PURGER → OWNER
//! ```
//!
//! Rules
//! 1. One thread purges at a time, the one that holds the lock of passes, `crate::purge::LOCK`: a
//!    pass and a step of the budget hold it from beginning to end. `LOCK` here is the lock of
//!    parked pages.
//! 2. `OUT` names the page that is *out*. It is in no list, and it alone has the owner `PURGER`.
//!    Only a thread that holds `parked`'s lock changes `OUT`, or the owner of this page.
//! 3. What `holes::purge_holes` changes belongs to the thread that purges: the free list, the holes
//!    and `is_tail_purged`. Nobody changes the other fields of the first line while the page is
//!    out.
//! 4. Nobody merges the inbox of `PURGER` while a page is out. A merge that finds a batch of this
//!    page in the inbox of `OWNER` sends it on. While no page is out, each merge takes both
//!    inboxes: a thread may have read the owner of a page that was out, and send its batch now.
//! 5. If a page is out although no thread purges, this is the child of a fork that interrupted the
//!    purge, or the purge gave up because an error was reported. The list of the page may be half
//!    made. So the next purge makes the page a lost one.
//!
//! Model: `tests/loom/handover.rs`.

use super::lists::STATE;
use super::{GIVEN_UP, LOCK, Locked, OUT, OWNER, PURGER, is_idle, out};
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{Meta, ParkedList};
use crate::backend::segment;
use crate::base::size_class::CLASSES;
use crate::base::sync::Ordering::Relaxed;
use crate::heap::reclaim::holes;
use crate::os;
use core::ptr::null_mut;

/// Purges the holes of the pages that were parked first, until `bytes` were given back. Returns the
/// bytes given back. O(blocks of those pages): it looks at 64 pages at most.
///
/// # Safety
/// The calling thread holds `crate::purge::LOCK` (rule 1).
pub unsafe fn purge_oldest(bytes: usize) -> usize {
    const MOST: usize = 64;
    let Some(mut pages) = LOCK.try_lock().map(Locked::new) else { return 0 };
    // SAFETY: this thread holds `crate::purge::LOCK`, and has no page out.
    unsafe { pages.lose_page_out() };
    let mut given = 0;
    for _ in 0..MOST {
        if given >= bytes {
            break;
        }
        let Some(page) = pages.oldest() else { break };
        if holes::is_worth_it(page) {
            // SAFETY: this thread holds `crate::purge::LOCK`. `oldest` gives a page of an
            // `Unpurged` list.
            pages = match unsafe { pages.purge_page(page, &mut given) } {
                Some(pages) => pages,
                None => break,
            };
        } else {
            pages.put_off(page);
        }
    }
    given
}

/// Purges the holes of pages that were parked `decay` ms or more before `now`. Returns the bytes
/// given back. O(pages parked since the last purge, and the blocks of those that are due).
///
/// # Safety
/// The calling thread holds `crate::purge::LOCK` (rule 1).
pub unsafe fn purge(now: u32, decay: u32, goes_on: impl Fn() -> bool) -> usize {
    if GIVEN_UP.load(Relaxed) || is_idle(u64::MAX) && out().is_none() {
        return 0;
    }
    let mut given = 0;
    let me = os::thread_token();
    {
        let Some(pages) = Locked::wait(me) else { return 0 };
        // SAFETY: this thread holds `crate::purge::LOCK`, and has no page out.
        unsafe { pages.lose_page_out() };
        pages.merge();
    }
    for class in 0..CLASSES {
        let Some(mut pages) = Locked::wait(me) else { return given };
        pages.begin(class);
        while goes_on()
            && let Some(page) = pages.next_due(now, decay)
        {
            // SAFETY: this thread holds `crate::purge::LOCK`. `next_due` gives a page of an
            // `Unpurged` list.
            pages = match unsafe { pages.purge_page(page, &mut given) } {
                Some(pages) => pages,
                None => return given,
            };
        }
    }
    given
}

impl Locked {
    /// Purges the holes of a page of an `Unpurged` list, and adds the bytes given back to `given`.
    /// Releases the lock meanwhile. None: see [`Locked::wait`]; the page stays out. O(its blocks,
    /// and the merge of remote frees).
    ///
    /// # Safety
    /// The calling thread holds `crate::purge::LOCK`.
    unsafe fn purge_page(self, page: &Meta, given: &mut usize) -> Option<Self> {
        self.unlink(page);
        OUT.store(page.raw(), Relaxed);
        page.set_owner(PURGER.as_word());
        drop(self);
        // SAFETY: this thread took the page out, and alone may bring it back (rules 1 and 2). So
        // the list and the holes of the page are its own (rule 3).
        let bytes = unsafe { holes::purge_holes(page) };
        if bytes > 0 {
            // Else the kernel would fill the holes to make a huge page of the segment.
            segment::refuse_thp(page);
        }
        *given += bytes;
        let this = Self::wait(os::thread_token())?;
        // In the child of a fork from a signal handler, the lists may be inconsistent.
        if !GIVEN_UP.load(Relaxed) {
            this.bring_back(page, ParkedList::Purged);
        }
        Some(this)
    }

    /// Makes the page that is out one of `list`, and merges what was freed of it. The caller is the
    /// thread that purges.
    fn bring_back(&self, page: &Meta, list: ParkedList) {
        OUT.store(null_mut(), Relaxed);
        page.set_owner(OWNER.as_word());
        self.link(page, list);
        self.merge();
    }

    /// Makes the page that a purge has left out a lost one (rule 5).
    ///
    /// # Safety
    /// The calling thread holds `crate::purge::LOCK`, and has no page out.
    unsafe fn lose_page_out(&self) {
        if let Some(page) = out().filter(|_| !GIVEN_UP.load(Relaxed)) {
            page.list.free.set(null_mut());
            self.bring_back(page, ParkedList::Lost);
        }
    }

    /// The page that was parked first, of the class whose turn it is.
    fn oldest(&self) -> Option<&'static Meta> {
        if GIVEN_UP.load(Relaxed) {
            return None;
        }
        let turn = usize::from(STATE.turn.get());
        let class = (turn..turn + CLASSES)
            .map(|i| i % CLASSES)
            .find(|&class| !STATE.oldest[class].get().is_null())?;
        STATE.turn.set(class as u8);
        // SAFETY: the pointer leads to a listed page, whose metadata is accessible for ever.
        unsafe { STATE.oldest[class].get().as_ref() }
    }

    /// Leaves an `Unpurged` page that has probably little to give. It goes behind the others of its
    /// class, and it is the next class's turn.
    fn put_off(&self, page: &Meta) {
        self.unlink(page);
        self.link(page, ParkedList::Unpurged);
        STATE.turn.set((page.class.get() + 1) % CLASSES as u8);
    }

    /// Begins with the pages of `class`.
    fn begin(&self, class: usize) {
        STATE.next.set(self.first(ParkedList::Unpurged, class).map_or(null_mut(), Meta::raw));
    }

    /// The next `Unpurged` page that was parked `decay` ms or more before `now`. Pages that are
    /// parked after [`Locked::begin`] are not among these. O(pages).
    fn next_due(&self, now: u32, decay: u32) -> Option<&'static Meta> {
        if GIVEN_UP.load(Relaxed) {
            return None;
        }
        loop {
            // SAFETY: the pointer is null or leads to a listed page, as `unlink` moves it on. The
            // metadata of a page is accessible for ever.
            let page = unsafe { STATE.next.get().as_ref() }?;
            STATE.next.set(PageQueue::after(page).map_or(null_mut(), Meta::raw));
            if os::age(now, page.stamp.load(Relaxed)) >= decay {
                return Some(page);
            }
        }
    }
}
