//! Pages with few blocks out, set aside so that their holes can be given back.
//!
//! Nobody but a page's owner may touch its lists, and an idle program's threads make no calls. So a heap hands a page
//! over once only a few of its blocks are out and some others have come to that since. From then on the page has this
//! module for its owner, whose state is under a lock: frees into it go the way of other threads' blocks, into `INBOX`;
//! the purge digs its holes; and the next heap that needs a page of its class takes it back.
//!
//! Rules
//! 1. `LOCK` guards the lists, and the first lines (`page` rule 1) of the pages whose owner is `owner()`.
//! 2. A page is in the list `FRESH` of its class, or in `DUG` if its holes were dug and no block came back since.
//! 3. Heaps only try the lock: whoever holds it may be long about it.

use crate::arena::PAGE;
use crate::guard;
use crate::holes;
use crate::os;
use crate::page::{Meta, Owner, Place};
use crate::parcel::Parcel;
use crate::policy;
use crate::proto::inbox::{Inbox, Link};
use crate::proto::lock::Lock;
use crate::segment;
use crate::size_class::CLASSES;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::usage;
use core::cell::Cell;
use core::ptr::null_mut;
use crossbeam_utils::CachePadded;

#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
#[unsafe(link_section = ".data.hakmem")]
static INBOX: CachePadded<Inbox<Parcel>> = CachePadded::new(Inbox::new());
static STATE: State =
    State { fresh: [const { Cell::new(null_mut()) }; CLASSES], dug: [const { Cell::new(null_mut()) }; CLASSES] };
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

struct State {
    fresh: [Cell<*mut Meta>; CLASSES],
    dug: [Cell<*mut Meta>; CLASSES],
}
// SAFETY: rule 1.
unsafe impl Sync for State {}

/// The owner of the pages that are set aside.
pub fn owner() -> *mut Owner {
    (&raw const INBOX).cast_mut().cast()
}

/// Where what is freed of them goes.
pub fn inbox() -> &'static Inbox<Parcel> {
    &INBOX
}

/// The most blocks that may be out of a page of `cap` that is set aside: so few that they leave holes.
pub fn most_out(cap: u32) -> u8 {
    policy::SPARSE_BLOCKS.get().min(cap / 2).min(255) as u8
}

/// How much may be given back, at most.
pub fn idle_bytes() -> usize {
    FRESH_SLOTS.load(Relaxed) * PAGE
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
        for list in [&STATE.fresh[class], &STATE.dug[class]] {
            let mut next = list.get();
            // SAFETY: rule 1.
            while let Some(page) = unsafe { next.as_ref() } {
                next = page.next.get();
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

/// True if there is neither a page nor mail, for pages that were taken back, say.
fn is_idle() -> bool {
    GIVEN_UP.load(Relaxed) || CLASSES_HERE.load(Relaxed) == 0 && INBOX.is_empty()
}

impl State {
    fn list(&self, page: &Meta) -> &Cell<*mut Meta> {
        let class = usize::from(page.class.get());
        if page.dug.get() { &self.dug[class] } else { &self.fresh[class] }
    }

    fn link(&self, page: &Meta) {
        let list = self.list(page);
        let first = list.replace(page.raw());
        page.prev.set(null_mut());
        page.next.set(first);
        // SAFETY: rule 1.
        if let Some(first) = unsafe { first.as_ref() } {
            first.prev.set(page.raw());
        }
        if !page.dug.get() {
            FRESH_SLOTS.fetch_add(page.span.load(Relaxed) as usize, Relaxed);
        }
    }

    fn unlink(&self, page: &Meta) {
        debug_assert!(page.owner() == owner() && page.place.get() == Place::Sparse);
        let (prev, next) = (page.prev.get(), page.next.get());
        // SAFETY: rule 1.
        unsafe {
            match prev.as_ref() {
                Some(prev) => prev.next.set(next),
                None => self.list(page).set(next),
            }
            if let Some(next) = next.as_ref() {
                next.prev.set(prev);
            }
        }
        if !page.dug.get() {
            FRESH_SLOTS.fetch_sub(page.span.load(Relaxed) as usize, Relaxed);
        }
    }

    /// Merges what was freed. `inbox_of` finds the inbox of pages that were taken back meanwhile. O(parcels).
    fn merge(&self, inbox_of: impl Fn(*mut Owner) -> &'static Inbox<Parcel>) {
        let mut parcel = if INBOX.is_empty() { null_mut() } else { INBOX.take() };
        while !parcel.is_null() {
            let (this, block) = (parcel, Parcel::block(parcel).cast());
            // SAFETY: `parcel` rule 1: it is ours since it was taken, and left alone once passed on or opened.
            let page = unsafe {
                let page = Parcel::page(this);
                let now = page.owner();
                if now != owner() {
                    if guard::CHECKED && now.is_null() {
                        guard::corrupt(block);
                    }
                    parcel = Parcel::next(this);
                    inbox_of(now).push_chain(this, this);
                    continue;
                }
                let (length, next) = Parcel::open(this, page);
                parcel = next;
                page.needed.set(page.needed.get() - length as i32);
                RECEIVED[usize::from(page.class.get())].fetch_add(u64::from(length), Relaxed);
                page
            };
            self.unlink(page);
            match page.needed.get() {
                0 => give_up(page),
                ..0 if guard::CHECKED => guard::double_free(block, page),
                _ => {
                    page.dug.set(false);
                    page.stamp.store(os::now_ms(), Relaxed);
                    self.link(page);
                }
            }
        }
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

/// Sets a page aside, which is in no queue any more. False: it is still the caller's. O(1).
pub fn set_aside(page: &Meta) -> bool {
    if GIVEN_UP.load(Relaxed) {
        return false;
    }
    let Some(_held) = LOCK.try_lock() else { return false };
    page.stamp.store(os::now_ms(), Relaxed);
    page.dug.set(false);
    page.place.set(Place::Sparse);
    page.set_owner(owner());
    STATE.link(page);
    CLASSES_HERE.fetch_or(1 << page.class.get(), Relaxed);
    true
}

/// Takes a page of `class` back, for `new_owner`; it is in no queue yet. None: there is none now. O(1), and the merging of
/// what was freed meanwhile, so that pages which are empty can be claimed.
pub fn take_back(
    class: usize,
    new_owner: *mut Owner,
    inbox_of: impl Fn(*mut Owner) -> &'static Inbox<Parcel>,
) -> Option<&'static Meta> {
    if is_idle() {
        return None;
    }
    let _held = LOCK.try_lock()?;
    STATE.merge(inbox_of);
    let lists = [&STATE.fresh[class], &STATE.dug[class]];
    // SAFETY: rule 1.
    let Some(page) = lists.iter().find_map(|list| unsafe { list.get().as_ref() }) else {
        CLASSES_HERE.fetch_and(!(1 << class), Relaxed);
        return None;
    };
    STATE.unlink(page);
    page.place.set(Place::Queue);
    page.set_owner(new_owner);
    Some(page)
}

/// Digs holes in the pages that were set aside `decay` ms or more before `now`. Returns the bytes given back. O(pages set
/// aside since the last time, and the blocks of those that are due).
pub fn purge(
    now: u32,
    decay: u32,
    inbox_of: impl Fn(*mut Owner) -> &'static Inbox<Parcel>,
    goes_on: impl Fn() -> bool,
) -> usize {
    if is_idle() {
        return 0;
    }
    {
        let _held = LOCK.lock();
        STATE.merge(inbox_of);
    }
    let mut given = 0;
    for class in 0..CLASSES {
        while goes_on() && purge_some(class, now, decay, &mut given) {}
    }
    given
}

/// Digs in up to `STRIDE` pages of `class`. Returns whether there may be more.
fn purge_some(class: usize, now: u32, decay: u32, given: &mut usize) -> bool {
    let _held = LOCK.lock();
    let (mut next, mut done) = (STATE.fresh[class].get(), 0);
    // SAFETY: rule 1.
    while let Some(page) = unsafe { next.as_ref() } {
        next = page.next.get();
        if os::age(now, page.stamp.load(Relaxed)) < decay {
            continue;
        }
        let bytes = holes::dig(page);
        if bytes > 0 {
            // Or the kernel would fill the holes, to make a huge page of it all.
            segment::refuse_huge(page);
        }
        *given += bytes;
        STATE.unlink(page);
        page.dug.set(true);
        STATE.link(page);
        done += 1;
        if done == STRIDE {
            return true;
        }
    }
    false
}
