//! Pages that are no heap's: with few blocks out, parked so that their holes can be given back; or shared, so that the
//! first blocks of a thread cost it no page of its own.
//!
//! Nobody but a page's owner may touch its lists, and an idle program's threads make no calls. So a heap hands a page
//! over once only a few of its blocks are out and some others have come to that since. From then on the page has this
//! module for its owner, whose state is under a lock: frees into it go the way of other threads' blocks, into the inbox of `OWNER`;
//! the purge digs its holes; and the next heap that needs a page of its class takes it back.
//!
//! A heap that shares gets its first blocks of a class from a page that is open to all who share ([`share`]). Each gets a few, so
//! that the blocks of many threads lie side by side. A page of which few blocks are out is parked in the same way as one
//! that a heap handed over, and the other way round.
//!
//! Rules
//! 1. `LOCK` guards the lists, and the first lines (`page` rule 1) of the pages whose owner is `owner()`.
//! 2. A page is in the list of its class that its `parked_list` says: see [`ParkedList`].
//! 3. Heaps only try the lock, as whoever holds it may be long about it, but for those that share: to go another way would cost them
//!    a page, and as many would as come to run while a thread does not that has the lock.

use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::owner::Owner;
use crate::backend::page::queue::PageQueue;
use crate::backend::page::{Block, Meta, PageState, ParkedList};
use crate::backend::remote_batch::RemoteBatch;
use crate::backend::segment;
use crate::base::size_class::{CLASSES, SIZES};
use crate::base::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::base::usage;
use crate::heap::holes;
use crate::os;
use crate::policy;
use crate::proto::inbox::Link;
use crate::proto::lock::Lock;
use core::ptr::null_mut;

#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
#[unsafe(link_section = ".data.hakmem")]
static OWNER: Owner = Owner::new();
static STATE: ParkedPages = ParkedPages { lists: [const { [const { PageQueue::new() }; CLASSES] }; LISTS] };
/// Bit i: class i has pages. A hint.
#[unsafe(link_section = ".data.hakmem")]
static CLASSES_HERE: AtomicU64 = AtomicU64::new(0);
/// Slots of pages that are FRESH.
pub static FRESH_SLOTS: AtomicUsize = AtomicUsize::new(0);
/// Blocks of each class that came back with pages given up here.
pub static RETURNED: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];
/// Those pages. In the child of a fork: since then.
pub static GIVEN: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];
/// Blocks of each class that were freed while their page was here.
pub static RECEIVED: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];

/// Set in the child of a fork that was made in the middle of a change: nothing is done here any more.
#[unsafe(link_section = ".data.hakmem")]
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Pages that are looked at under the lock at a time.
const STRIDE: usize = 16;

const _: () = assert!(CLASSES <= 64);

/// A page is in one of so many lists, or in none.
const LISTS: usize = ParkedList::Full as usize;

struct ParkedPages {
    /// By list and class.
    lists: [[PageQueue; CLASSES]; LISTS],
}
// SAFETY: whoever uses the lists holds `LOCK` (rule 1).
unsafe impl Sync for ParkedPages {}

/// The owner of the pages that are parked.
pub fn owner() -> *mut Owner {
    OWNER.as_word()
}

/// The most blocks that may be out of a page of `cap` that is parked: so few that they leave holes.
pub fn most_out(cap: u32) -> u8 {
    policy::PARK_BLOCKS.get().min(cap / 2).min(255) as u8
}

/// How much may be given back, at most.
pub fn idle_bytes() -> usize {
    FRESH_SLOTS.load(Relaxed) * SLOT
}

/// Blocks of `class` that came back with pages that were given up here.
pub fn returned(class: usize) -> u64 {
    RETURNED[class].load(Relaxed)
}

/// Pages of `class` that were given up here; in the child of a fork since then.
pub fn given(class: usize) -> u64 {
    GIVEN[class].load(Relaxed)
}

/// Blocks of `class` that were freed while their page was here.
pub fn received(class: usize) -> u64 {
    RECEIVED[class].load(Relaxed)
}

/// In the child of a fork, which counts anew, once `heap::counts::reset_all` has what was given up.
pub fn reset_counts() {
    for count in RECEIVED.iter().chain(&GIVEN) {
        count.store(0, Relaxed);
    }
}

/// Calls `f` for each page that is here, with its class and the blocks of it that are free. O(pages).
pub fn each_page(mut f: impl FnMut(usize, u64)) {
    if GIVEN_UP.load(Relaxed) {
        return;
    }
    let Some(_held) = LOCK.lock_patiently() else { return };
    for class in 0..CLASSES {
        for lists in &STATE.lists {
            let mut next = lists[class].first();
            while let Some(page) = next {
                next = PageQueue::after(page);
                f(class, page.waiting());
            }
        }
    }
}

/// In the child of a fork that was made in the middle of a change: the lists cannot be believed, so the pages stay as
/// they are for ever, and what is freed of them is not used again.
pub fn give_up_all() {
    GIVEN_UP.store(true, Relaxed);
    FRESH_SLOTS.store(0, Relaxed);
}

/// True if there is neither a page nor a remote free, for pages that were unparked, say.
fn is_idle() -> bool {
    GIVEN_UP.load(Relaxed) || CLASSES_HERE.load(Relaxed) == 0 && OWNER.inbox().is_empty()
}

impl ParkedPages {
    /// The list that the page is in. None: it is full.
    fn list(&self, page: &Meta) -> Option<&PageQueue> {
        Some(&self.lists.get(page.parked_list.get() as usize)?[usize::from(page.class.get())])
    }

    /// The first page of `class` in a list.
    fn first(&self, list: ParkedList, class: usize) -> Option<&'static Meta> {
        self.lists[list as usize][class].first()
    }

    /// Puts a page that is in no list into one.
    fn link(&self, page: &Meta, list: ParkedList) {
        page.parked_list.set(list);
        let Some(queue) = self.list(page) else { return };
        queue.push(page);
        if list == ParkedList::Fresh {
            FRESH_SLOTS.fetch_add(page.span.load(Relaxed) as usize, Relaxed);
        }
        CLASSES_HERE.fetch_or(1 << page.class.get(), Relaxed);
    }

    /// Moves a page to another list, unless it is there.
    fn relink(&self, page: &Meta, list: ParkedList) {
        if page.parked_list.get() != list {
            self.unlink(page);
            self.link(page, list);
        }
    }

    fn unlink(&self, page: &Meta) {
        debug_assert!(page.owner() == owner() && page.state.get() == PageState::Parked);
        let Some(queue) = self.list(page) else { return };
        queue.remove(page);
        if page.parked_list.get() == ParkedList::Fresh {
            FRESH_SLOTS.fetch_sub(page.span.load(Relaxed) as usize, Relaxed);
        }
    }

    /// Merges what other threads freed. The lock is held. O(batches).
    fn merge(&self) {
        if OWNER.inbox().is_empty() {
            return;
        }
        // SAFETY: the caller holds the lock (rule 1).
        unsafe {
            OWNER.merge(|page, length, block| {
                RECEIVED[usize::from(page.class.get())].fetch_add(u64::from(length), Relaxed);
                self.came_back(page, block);
            });
        }
    }

    /// Blocks of the page came back, `block` among them. Returns whether the page was given up.
    fn came_back(&self, page: &Meta, block: *mut u8) -> bool {
        match page.until_slow.get() {
            0 => {
                self.unlink(page);
                give_up(page);
                return true;
            }
            ..0 if check::CHECKED => check::double_free(block, page),
            out if out <= i32::from(most_out(page.cap.get())) => {
                page.stamp.store(os::now_ms(), Relaxed);
                self.relink(page, ParkedList::Fresh);
            }
            _ => self.relink(page, ParkedList::Shared),
        }
        false
    }

    /// A page of `class` that a heap may have for its own: a shared one only if much of it was freed.
    fn page_to_take(&self, class: usize) -> Option<&'static Meta> {
        let much_is_free = |page: &&Meta| {
            let (out, cap) = (page.until_slow.get() as u32, page.cap.get());
            page.carved.get() == cap && cap - out >= cap / policy::UNFULL_FRACTION.of(class).max(1)
        };
        let few_are_out = self.first(ParkedList::Fresh, class).or_else(|| self.first(ParkedList::Purged, class));
        few_are_out.or_else(|| self.first(ParkedList::Shared, class).filter(much_is_free))
    }

    /// A page of `class` that blocks can be handed out of. It may turn out to have none.
    fn page_to_share(&self, class: usize) -> Option<&'static Meta> {
        [ParkedList::Shared, ParkedList::Fresh, ParkedList::Purged].into_iter().find_map(|list| self.first(list, class))
    }
}

/// Gives an empty page to its segment.
fn give_up(page: &Meta) {
    let blocks = page.carved.get();
    let bytes = i64::from(blocks) * i64::from(page.block_size.get());
    RETURNED[usize::from(page.class.get())].fetch_add(u64::from(blocks), Relaxed);
    GIVEN[usize::from(page.class.get())].fetch_add(1, Relaxed);
    usage::add(-bytes, 0);
    let span = page.span.load(Relaxed);
    if span == 1 {
        segment::note_carved(-bytes);
        segment::note_small(-1);
    }
    page.close();
    // SAFETY: closed and empty (`page` rule 2), and in no list (rule 2).
    unsafe { segment::release(page, span) };
}

/// Parks a page, which is in no queue any more. False: it is still the caller's. O(1).
pub fn park(page: &Meta) -> bool {
    if GIVEN_UP.load(Relaxed) {
        return false;
    }
    let Some(_held) = LOCK.try_lock() else { return false };
    page.stamp.store(os::now_ms(), Relaxed);
    page.state.set(PageState::Parked);
    page.set_owner(owner());
    STATE.link(page, ParkedList::Fresh);
    true
}

/// Blocks for a heap that shares.
pub struct Share {
    /// The first one. It leads to the others, unless they were carved: these lie side by side, untouched.
    pub first: *mut Block,
    /// How many.
    pub count: u32,
    /// Whether they were carved, and not freed before.
    pub carved: bool,
    /// Whether their page was claimed for them.
    pub claimed: bool,
    /// Their page.
    pub page: &'static Meta,
}

/// Hands out blocks of `class` from a shared page: as many as `bytes` have room for, fewer if the page has no more, but one. None:
/// out of memory, or a signal handler asks that has interrupted this module. O(blocks), and the merging of what was freed meanwhile.
pub fn share(class: usize, bytes: u32) -> Option<Share> {
    if GIVEN_UP.load(Relaxed) {
        return None;
    }
    let me = os::thread_token();
    if LOCK.is_held_by(me) {
        return None; // In a signal handler.
    }
    let _held = LOCK.lock_as(me);
    STATE.merge();
    let most = (bytes / SIZES[class]).max(1);
    let mut claimed = false;
    loop {
        let page = match STATE.page_to_share(class) {
            Some(page) => page,
            None => {
                claimed = true;
                claim(class)?
            }
        };
        let got = take_some(page, most);
        let is_full = page.free.get().is_null() && page.carved.get() == page.cap.get() && page.holes.get() == 0;
        STATE.relink(page, if is_full { ParkedList::Full } else { ParkedList::Shared });
        if let Some((first, count, carved)) = got {
            page.until_slow.set(page.until_slow.get() + count as i32);
            return Some(Share { first, count, carved, claimed, page });
        }
    }
}

/// A page of `class` to be shared.
fn claim(class: usize) -> Option<&'static Meta> {
    let (page, zero) = segment::claim(1)?;
    segment::note_small(1);
    page.open(owner(), class, SIZES[class], 1, zero);
    page.state.set(PageState::Parked);
    STATE.link(page, ParkedList::Shared);
    Some(page)
}

/// Takes up to `most` blocks out of a page: the first one, their number, and whether they were carved; then they are not linked, as
/// nobody has touched them, and that is not for who has the lock. None: there is none.
fn take_some(page: &Meta, most: u32) -> Option<(*mut Block, u32, bool)> {
    let (carved, left) = (page.carved.get(), page.cap.get() - page.carved.get());
    if page.free.get().is_null() && left > 0 {
        let count = most.min(left);
        page.carved.set(carved + count);
        let offset = carved as usize * page.block_size.get() as usize;
        return Some((page.start().wrapping_add(offset).cast(), count, true));
    }
    if page.free.get().is_null() {
        page.free.set(holes::fill(page)?.0);
    }
    let first = page.free.get();
    let (mut last, mut count) = (first, 0);
    // SAFETY: a block of the page's list (rule 1), as has been looked at.
    unsafe {
        loop {
            if check::CHECKED && !check::is_block_of(page, last) {
                check::corrupt(last.cast());
            }
            count += 1;
            let next = Block::next(last);
            if count == most || next.is_null() {
                page.free.set(next);
                Block::set_next(last, null_mut());
                return Some((first, count, false));
            }
            last = next;
        }
    }
}

/// What became of a block that was to be freed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    /// It is free, or will be as soon as somebody else has the lock.
    Yes,
    /// It is free, and so are all others of its page, which was given up.
    WithItsPage,
    /// It is still the caller's: the page went to a heap meanwhile, or the lock is held and nothing can be sent.
    No,
}

/// Frees a block at once, that others may have it, and not by way of a batch that its thread may keep for long. `received`: 1, or 0
/// for one that was never handed out. O(1), and the merging of what was freed meanwhile.
///
/// # Safety
/// The block is of that page, was live, and is given up by the caller.
pub unsafe fn free(page: &Meta, block: *mut Block, received: u64) -> Freed {
    let Some(_held) = LOCK.try_lock() else {
        if received == 0 {
            return Freed::No; // What is sent counts as received.
        }
        check::check_start(block, page);
        // SAFETY: the block is the caller's to give up; who has the lock next finds out whose its page is.
        unsafe { RemoteBatch::send_one(page, block, OWNER.inbox()) };
        return Freed::Yes;
    };
    if page.owner() != owner() || GIVEN_UP.load(Relaxed) {
        return Freed::No;
    }
    if check::CHECKED && !check::is_block_of(page, block) {
        check::not_a_block(block.cast(), Some(page));
    }
    if check::CHECKED && page.free.get() == block {
        check::double_free(block.cast(), page);
    }
    // SAFETY: the block is free from now on, and the page this module's.
    unsafe { Block::set_next(block, page.free.replace(block)) };
    page.until_slow.set(page.until_slow.get() - 1);
    RECEIVED[usize::from(page.class.get())].fetch_add(received, Relaxed);
    let is_given_up = STATE.came_back(page, block.cast());
    STATE.merge();
    if is_given_up { Freed::WithItsPage } else { Freed::Yes }
}

/// Takes a page of `class` back, for `new_owner`; it is in no queue yet. None: there is none now. O(1), and the merging of
/// what was freed meanwhile, so that pages which are empty can be claimed.
pub fn unpark(class: usize, new_owner: *mut Owner) -> Option<&'static Meta> {
    if is_idle() {
        return None;
    }
    let _held = LOCK.try_lock()?;
    STATE.merge();
    let Some(page) = STATE.page_to_take(class) else {
        if STATE.page_to_share(class).is_none() {
            CLASSES_HERE.fetch_and(!(1 << class), Relaxed);
        }
        return None;
    };
    STATE.unlink(page);
    page.state.set(PageState::Queue);
    page.set_owner(new_owner);
    Some(page)
}

/// Purges the holes of pages that were parked `decay` ms or more before `now`. Returns the bytes given back. O(pages
/// parked since the last time, and the blocks of those that are due).
pub fn purge(now: u32, decay: u32, goes_on: impl Fn() -> bool) -> usize {
    if is_idle() {
        return 0;
    }
    {
        let _held = LOCK.lock();
        STATE.merge();
    }
    let mut given = 0;
    for class in 0..CLASSES {
        while goes_on() && purge_some(class, now, decay, &mut given) {}
    }
    given
}

/// Purges the holes of up to `STRIDE` pages of `class`. Returns whether there may be more.
fn purge_some(class: usize, now: u32, decay: u32, given: &mut usize) -> bool {
    let _held = LOCK.lock();
    let (mut next, mut done) = (STATE.first(ParkedList::Fresh, class), 0);
    while let Some(page) = next {
        next = PageQueue::after(page);
        if os::age(now, page.stamp.load(Relaxed)) < decay {
            continue;
        }
        let bytes = holes::purge_holes(page);
        if bytes > 0 {
            // Or the kernel would fill the holes, to make a huge page of it all.
            segment::refuse_thp(page);
        }
        *given += bytes;
        STATE.relink(page, ParkedList::Purged);
        done += 1;
        if done == STRIDE {
            return true;
        }
    }
    false
}
