//! What other threads do with parked pages while the purge gives the memory of one back.

extern crate std;

use super::*;
use crate::api::c;
use crate::backend::page;
use crate::base::size_class::SIZES;
use crate::base::sync::plain;
use crate::heap::all::all_heaps;
use crate::testing::{alone, goes_well_in_child, in_child, keep_nothing_back};
use crate::{policy, purge};
use std::sync::Mutex;
use std::vec::Vec;

const SIZE: usize = 1024;
/// Used blocks of each parked page.
const USED: usize = 2;

/// The pages for which a stop has run.
static STOPS: plain::AtomicUsize = plain::AtomicUsize::new(0);
/// The used blocks of all parked pages, by their addresses.
static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn free(block: usize) {
    // SAFETY: the tests free each block once.
    unsafe { c::free(os::at(block)) };
}

/// False: all of a small page is one system page, so the purge takes no page out.
fn has_holes() -> bool {
    os::page_size() < SLOT
}

/// Parks pages, and notes the used blocks of them. Returns their class.
fn park_some() -> usize {
    keep_nothing_back();
    policy::SCAVENGE_MIB.set(0);
    policy::DECAY_MS.set(u32::MAX);
    // SAFETY: `malloc` takes any size.
    let blocks: Vec<_> =
        (0..20 * SLOT / SIZE).map(|_| unsafe { c::malloc(SIZE) }.expose_provenance()).collect();
    let (kept, gone): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|p| p % SLOT < USED * SIZE);
    gone.into_iter().for_each(free);
    let class = page::lookup(os::at(kept[0])).unwrap().class.get();
    KEPT.lock().unwrap().extend(kept);
    assert!(has_unpurged());
    class.into()
}

/// Runs `f` in a thread of its own, and waits for its end.
fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(f).join().unwrap())
}

/// Purges everything, and runs `stop` once for each page that is out, before the memory goes back.
fn purge_with(stop: fn()) {
    static LAST: AtomicPtr<Meta> = AtomicPtr::new(null_mut());
    static STOP: Mutex<fn()> = Mutex::new(|| ());
    *STOP.lock().unwrap() = stop;
    let run = || {
        let page = OUT.load(Relaxed);
        if !page.is_null() && LAST.swap(page, Relaxed) != page {
            let stop = *STOP.lock().unwrap();
            stop();
            STOPS.fetch_add(1, Relaxed);
        }
    };
    os::stops::at_each_purge(run, purge::all);
}

/// The used blocks of the page that is out. They are the caller's from now on.
fn take_used_of_out() -> Vec<usize> {
    let start = out().unwrap().start().addr();
    KEPT.lock().unwrap().extract_if(.., |block| *block / SLOT * SLOT == start).collect()
}

/// The pages that heaps have taken.
fn unparked() -> u64 {
    all_heaps().map(|heap| heap.counts().unparked.get()).sum()
}

#[test]
fn others_take_and_share_pages_while_memory_goes_back() {
    if !has_holes() {
        return;
    }
    static CLASS: plain::AtomicUsize = plain::AtomicUsize::new(0);
    alone(
        "heap::reclaim::parked::tests::others_take_and_share_pages_while_memory_goes_back",
        || {
            let class = park_some();
            CLASS.store(class, Relaxed);
            let before = unparked();
            purge_with(|| {
                elsewhere(|| assert!(LOCK.try_lock().is_some(), "the purge holds the lock"));
                elsewhere(|| {
                    let block = share(CLASS.load(Relaxed), SIZES[0]).unwrap().first;
                    let page = page::lookup(block.cast()).unwrap();
                    // SAFETY: `share` gave the block to this thread, and the program never had it.
                    assert_ne!(unsafe { super::free(page, block, 0) }, Freed::No);
                    // SAFETY: `malloc` takes any size.
                    let taken = unsafe { c::malloc(SIZE) };
                    assert!(!core::ptr::eq(page::lookup(taken).unwrap().head(), out().unwrap()));
                    free(taken.expose_provenance());
                });
            });
            assert!(STOPS.load(Relaxed) > 3 && unparked() > before);
        },
    );
}

/// Blocks of the page that is out are freed: by a batch, and as one that a heap sends at once.
#[test]
fn a_page_that_empties_while_it_is_out_is_given_up() {
    if !has_holes() {
        return;
    }
    alone("heap::reclaim::parked::tests::a_page_that_empties_while_it_is_out_is_given_up", || {
        let class = park_some();
        let before = (given(class), received(class));
        purge_with(|| {
            elsewhere(|| {
                let blocks = take_used_of_out();
                for (i, &block) in blocks.iter().enumerate() {
                    let now = if i == 0 {
                        // SAFETY: the block is live, and freed here alone.
                        unsafe { super::free(out().unwrap(), os::at(block).cast(), 1) }
                    } else {
                        free(block);
                        Freed::Yes
                    };
                    assert_eq!(now, Freed::Yes);
                }
                assert!(!OWNER.inbox().is_empty());
                merge();
                assert!(!PURGER.inbox().is_empty() && is_idle(0), "what came waits for the page");
            });
        });
        let emptied = STOPS.load(Relaxed) as u64;
        assert!(emptied > 3 && KEPT.lock().unwrap().len() < 20 * USED);
        assert_eq!(
            (given(class) - before.0, received(class) - before.1),
            (emptied, emptied * USED as u64)
        );
        assert!(OWNER.inbox().is_empty() && PURGER.inbox().is_empty());
    });
}

/// A thread read the owner of a page that was out, and sends its block when the page is back.
#[test]
fn a_block_that_comes_late_reaches_its_page() {
    alone("heap::reclaim::parked::tests::a_block_that_comes_late_reaches_its_page", || {
        let class = park_some();
        purge::all();
        let before = received(class);
        let blocks = core::mem::take(&mut *KEPT.lock().unwrap()).into_iter().map(os::at);
        let of_parked = |block: *mut u8| Some((block.cast::<Block>(), page::lookup(block)?));
        let found = blocks.filter_map(of_parked).find(|(_, page)| page.owner() == OWNER.as_word());
        let (block, page) = found.unwrap();
        // SAFETY: the block is live, and freed here alone. `PURGER` owned its page before.
        unsafe { RemoteBatch::send_one(page, block, PURGER.inbox()) };
        assert!(!is_idle(0));
        merge();
        assert_eq!(received(class) - before, 1);
        assert!(PURGER.inbox().is_empty());
    });
}

/// In the child of a fork that interrupts a purge, the page that is out can be freed, and the
/// others can be purged and taken.
#[test]
fn a_child_loses_one_page_until_its_blocks_are_free() {
    if !has_holes() {
        return;
    }
    alone("heap::reclaim::parked::tests::a_child_loses_one_page_until_its_blocks_are_free", || {
        park_some();
        purge_with(|| {
            if STOPS.load(Relaxed) > 0 {
                return;
            }
            let goes_well = elsewhere(|| {
                goes_well_in_child(|| {
                    let lost = out().unwrap();
                    let class = usize::from(lost.class.get());
                    let fresh = FRESH_SLOTS.load(Relaxed);
                    let blocks = take_used_of_out();
                    free(blocks[0]);
                    assert!(
                        purge::all() > 0 && fresh > 3 && !has_unpurged(),
                        "the others are purged"
                    );
                    assert!(out().is_none() && lost.owner() == OWNER.as_word());
                    assert!(lost.parked_list.get() == ParkedList::Lost);
                    // SAFETY: `malloc` takes any size.
                    let many: Vec<_> =
                        (0..20 * SLOT / SIZE).map(|_| unsafe { c::malloc(SIZE) }).collect();
                    assert!(
                        many.iter().all(|p| !core::ptr::eq(page::lookup(*p).unwrap().head(), lost))
                    );
                    assert!(unparked() > 3, "the others are taken");
                    let before = given(class);
                    free(blocks[1]);
                    c::trim();
                    assert_eq!(given(class), before + 1);
                    many.into_iter().for_each(|p| free(p.expose_provenance()));
                })
            });
            assert!(goes_well);
        });
        assert!(STOPS.load(Relaxed) > 0);
    });
}

/// Nobody merges what waits for pages that were given up. If it counted as free, the scavenger of
/// the child would never end.
#[test]
fn nothing_of_pages_that_were_given_up_is_free() {
    in_child(|| {
        // SAFETY: `malloc` returned the block, which goes into the inbox and is not used again.
        unsafe {
            let batch = RemoteBatch::new(c::malloc(SIZE).cast());
            OWNER.inbox().push_chain(batch, batch, 16 << 20);
        }
        assert!(free_bytes() >= 16 << 20);
        give_up_all();
        assert_eq!(free_bytes(), 0);
    });
}
