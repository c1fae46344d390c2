use crate::base::sync::{Ordering, fence};
use crate::check;
use crate::proto::take_away;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use loom::thread;
use std::cell::Cell;

/// A page in miniature, and the list of the holder's heap for its class. All lists are numbers of
/// blocks.
struct Page {
    /// The owner's words of the first slot, and of a further one.
    is_holders: [AtomicBool; 2],
    /// Blocks of the page that are not on its own list.
    used: AtomicU32,
    /// Blocks of the page on the list of the holder's heap.
    listed: AtomicU32,
    /// The page's own list. Only the owner touches it: loom reports others.
    free: UnsafeCell<u32>,
    /// The same list as a word, of which a thread may see an old value.
    links: AtomicU32,
}
unsafe impl Sync for Page {}
unsafe impl Send for Page {}

/// The holder. It keeps what it wrote last: loom misses schedules of a load and a store of one
/// word.
struct Holder {
    page: Arc<Page>,
    used: u32,
    listed: u32,
    links: u32,
    sent: u32,
}

impl Holder {
    /// Frees a live block in a slot, as `free` does by the fast path, or as a remote free.
    fn free(&mut self, slot: usize) {
        let page = &*self.page;
        let is_own = |slot: usize| page.is_holders[slot].load(Relaxed);
        // A free that finds another owner looks again, at the first slot, and acts by what it reads
        // then (rule 1).
        if !is_own(slot) && !is_own(0) {
            self.sent += 1;
            return;
        }
        self.used -= 1;
        self.links += 1;
        let push = || {
            page.links.store(self.links, Relaxed);
            page.free.with_mut(|n| unsafe { *n += 1 });
        };
        take_away::free(push, || page.used.store(self.used, Relaxed));
    }

    /// Takes a block from the list of the holder's heap, as `malloc` does.
    fn pop(&mut self) {
        self.listed -= 1;
        take_away::pop(|| self.page.listed.store(self.listed, Relaxed));
    }
}

impl Page {
    fn set_owner(&self, is_holder: bool) {
        self.is_holders
            .iter()
            .for_each(|word| word.store(is_holder, Relaxed));
    }

    fn new(used: u32, listed: u32) -> Arc<Self> {
        Arc::new(Self {
            is_holders: [AtomicBool::new(true), AtomicBool::new(true)],
            used: AtomicU32::new(used),
            listed: AtomicU32::new(listed),
            free: UnsafeCell::new(0),
            links: AtomicU32::new(0),
        })
    }
}

/// The barrier of the purge.
fn barrier() -> bool {
    fence(Ordering::SeqCst);
    true
}

/// The holder frees a block and takes a listed one, which it frees as well. A purge takes the page
/// away meanwhile. Only the owner touches the page's list, and no block is lost.
fn model(live: u32) {
    // Two blocks more are listed than the holder takes.
    let (used, listed) = (live + 3, 3);
    let page = Page::new(used, listed);
    let purge = {
        let page = page.clone();
        thread::spawn(move || {
            let pages = Cell::new(Some(&*page));
            let each = || std::iter::once(()).filter_map(|()| pages.get());
            let listed = Cell::new(0);
            take_away::take_away(
                each(),
                barrier,
                |page| page.set_owner(false),
                |page| {
                    listed.set(page.listed.load(Relaxed));
                    page.used.load(Relaxed) == listed.get()
                },
                |page| page.listed.load(Relaxed) == listed.get(),
                |page| {
                    page.set_owner(true);
                    pages.set(None);
                },
            );
            if let Some(page) = pages.get() {
                let counted = used - page.used.load(Relaxed);
                assert_eq!(page.links.load(Relaxed), counted, "the list is complete");
                page.free.with_mut(|n| unsafe { *n += 0 });
            }
            pages.get().is_some()
        })
    };
    let mut holder = Holder {
        page,
        used,
        listed,
        links: 0,
        sent: 0,
    };
    for _ in 0..live {
        holder.free(0);
    }
    holder.pop();
    holder.free(1);
    let is_taken = purge.join().unwrap();
    let page = &*holder.page;
    for word in &page.is_holders {
        assert_eq!(word.load(Relaxed), !is_taken);
    }
    let free = page.free.with(|n| unsafe { *n });
    assert_eq!(
        used - page.used.load(Relaxed),
        free,
        "each block on the page's list is counted"
    );
    assert_eq!(
        free + holder.sent,
        live + 1,
        "each block is on the page's list, or was sent"
    );
}

#[test]
fn a_page_is_taken_away_only_while_no_free_is_under_way() {
    check(
        || model(1),
        &[
            "TakeAwayPopsBlind",
            "TakeAwayCountsBlind",
            "TakeAwayComparesNothing",
            "TakeAwayTrustsTheCount",
        ],
    );
}

/// The purge has a block of the page, which another thread freed. The holder frees the other used
/// block. If the count says that the purge has all used blocks, it merges its own.
#[test]
fn a_page_of_which_a_purge_has_all_used_blocks_is_merged() {
    check(
        || {
            let page = Page::new(2, 0);
            let purge = {
                let page = page.clone();
                thread::spawn(move || {
                    let has_all = page.used.load(Relaxed) == 1 && take_away::settle(barrier);
                    if has_all {
                        assert_eq!(page.links.load(Relaxed), 1, "the list is complete");
                        page.free.with_mut(|n| unsafe { *n += 1 });
                        page.used.store(0, Relaxed);
                    }
                    has_all
                })
            };
            let mut holder = Holder {
                page,
                used: 2,
                listed: 0,
                links: 0,
                sent: 0,
            };
            holder.free(0);
            let merged = u32::from(purge.join().unwrap());
            let page = &*holder.page;
            assert_eq!(page.used.load(Relaxed), 1 - merged);
            assert_eq!(page.free.with(|n| unsafe { *n }), 1 + merged);
        },
        &["TakeAwayCountsBlind", "TakeAwaySettlesBlind"],
    );
}
