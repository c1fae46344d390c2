//! Heaps in the child of a fork, and the lists of blocks above 1 KiB.

extern crate std;

use super::*;
use crate::base::size_class;
use crate::base::sync::Ordering::Relaxed;
use crate::heap::reclaim::parked;
use crate::heap::refill::FAR;
use crate::proto::heap_state::{Adopted, Tidied, With};
use crate::testing::{goes_well_in_child, in_child};
use crate::thread;
use std::sync::{Barrier, mpsc};
use std::vec::Vec;

/// The calling thread's heap.
fn own() -> &'static Heap {
    thread::with_heap(Some).unwrap()
}

/// A heap that was in the middle of a change is lost; any other heap can be adopted.
#[test]
fn a_heap_that_was_busy_is_lost_in_the_child() {
    const ME: u32 = 7;
    let (sender, receiver) = mpsc::channel();
    let over = Barrier::new(3);
    let mine = own();
    std::thread::scope(|scope| {
        for is_busy in [true, false] {
            let (sender, over) = (sender.clone(), &over);
            scope.spawn(move || {
                let wait = || {
                    sender.send((is_busy, core::ptr::from_ref(own()).addr())).unwrap();
                    over.wait();
                };
                if is_busy { own().busy(wait) } else { wait() }
            });
        }
        let heaps = [receiver.recv().unwrap(), receiver.recv().unwrap()];
        let look = || {
            for (was_busy, heap) in heaps {
                let heap = crate::heap::all::all_heaps()
                    .find(|h| core::ptr::from_ref(*h).addr() == heap)
                    .unwrap();
                // SAFETY: the child has one thread.
                let held = unsafe { heap.holder() };
                assert_eq!(heap.state().adopt(ME) == Adopted::Yes, !was_busy);
                assert!(held.inherited.get());
            }
            assert!(core::ptr::eq(own(), mine) && !mine.inherited.get());
        };
        let goes_well = goes_well_in_child(look);
        over.wait();
        assert!(goes_well);
    });
}

/// A thread that tidies all idle heaps finds no new heap among them: it would take the heap from
/// the thread that made it.
#[test]
fn a_new_heap_is_held_by_its_maker() {
    in_child(|| {
        let me = crate::os::thread_token();
        let heap = crate::heap::all::make(me).unwrap();
        assert_eq!(heap.state().with(), With::Thread(me));
        assert_eq!(heap.state().tidy(9, || unreachable!("it is not idle")), Tidied::No);
    });
}

/// Allocates a block of `size` bytes, as a C program does.
fn take(size: usize) -> *mut u8 {
    // SAFETY: `malloc` takes any size.
    unsafe { crate::api::c::malloc(size) }
}

/// Frees it. The tests free each block once in a process.
fn free(p: *mut u8) {
    // SAFETY: the block is live, and no test uses it afterwards.
    unsafe { crate::api::c::free(p) }
}

/// A thread allocates, and another one frees: the pages that it ends are the allocating heap's no
/// more. Else each heap whose blocks others free would soon count as a large one.
#[test]
#[cfg_attr(feature = "hardened", ignore = "a free puts blocks into the quarantine")]
fn pages_that_others_end_do_not_count_on() {
    const PAGES: usize = 40;
    in_child(|| {
        let blocks: Vec<usize> = (0..PAGES << 7).map(|_| take(512).addr()).collect();
        let before = own().pages.get();
        assert!(before >= PAGES as u32);
        let frees = || blocks.iter().for_each(|&p| free(core::ptr::with_exposed_provenance_mut(p)));
        std::thread::scope(|scope| scope.spawn(frees).join()).unwrap();
        // A class of which the heap has no page.
        assert!(!take(3000).is_null());
        let now = own().pages.get();
        assert!(now <= before - PAGES as u32 / 2, "{now} for {before}");
    });
}

/// The count of pages may come to the highest number.
#[test]
fn the_count_of_pages_does_not_wrap() {
    in_child(|| {
        let heap = own();
        heap.pages.set(u32::MAX);
        for _ in 0..1000 {
            assert!(!take(3000).is_null());
        }
        assert_eq!(heap.pages.get(), u32::MAX);
    });
}

/// The lists of a large heap lead through memory that is in no cache.
#[test]
#[cfg_attr(feature = "hardened", ignore = "a free puts blocks into the quarantine")]
fn a_large_heap_fetches_the_pages_of_long_lists() {
    in_child(|| {
        let fetched = || crate::backend::page::fetch::FETCHED.load(Relaxed);
        let halve = |count: usize| {
            let blocks: Vec<_> = (0..count).map(|_| take(64)).collect();
            let before = fetched();
            blocks.iter().step_by(2).for_each(|&p| free(p));
            for _ in 0..count / 2 {
                take(64);
            }
            fetched() - before
        };
        assert_eq!(halve(FAR as usize / 2 * 1024), 0);
        let pages = FAR as usize;
        let times = halve(pages * 1024);
        assert!(times > pages / 2, "{times} of {pages}");
    });
}

/// A signal handler must not follow the lists of a heap that it interrupted in the middle of a
/// change.
#[test]
fn a_heap_is_busy_while_pages_move() {
    let heap = own();
    assert!(!heap.is_busy());
    heap.busy(|| assert!(heap.is_busy()));
    assert!(!heap.is_busy());
}

/// A child whose lists of parked pages are inconsistent leaves these pages as they are.
#[test]
fn pages_that_were_given_up_are_left_alone() {
    const SIZE: usize = 1024;
    let class = size_class::of16(SIZE);
    let take = || take(SIZE);
    // Pages with two used blocks each, and then one more.
    let few_blocks = || {
        let blocks: Vec<_> = (0..20 * arena::SLOT / SIZE).map(|_| take()).collect();
        let (kept, gone): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|p| p.addr() % arena::SLOT < 2 * SIZE);
        gone.into_iter().for_each(free);
        kept
    };
    // In the child no other test holds the lock, so every park succeeds.
    in_child(|| {
        let mine = own();
        let park = || mine.counts.parked.get();
        let before = park();
        let mut kept = few_blocks();
        assert!(park() > before);

        parked::give_up_all();
        let before = park();
        let _held = crate::purge::keep_away().unwrap();
        // SAFETY: this thread holds `purge::LOCK`.
        let purge_holes = || unsafe { parked::purge(crate::os::now_ms(), 0, || true) };
        // SAFETY: `mine` is the heap of this thread.
        let unparked = unsafe { parked::unpark(class, &mine.owner) };
        assert!(unparked.is_none() && purge_holes() == 0);
        kept.drain(..10).for_each(free);
        mine.collect();
        assert_eq!(purge_holes(), 0);
        kept.extend(few_blocks());
        assert_eq!(park(), before);
        kept.drain(..).for_each(free);
    });
}

/// Blocks above 1 KiB: the next allocation gets the block that was freed last. The list keeps few,
/// and more once frees and allocations take turns.
#[test]
#[cfg_attr(feature = "hardened", ignore = "there the list has one of them")]
fn freed_blocks_come_back_newest_first() {
    // The bytes of a block, and how many of them the list keeps at first, and at most.
    for (size, first, most) in [(40_000, 1, 6), (8192, 1, 16), (3000, 1, 42), (1040, 3, 120)] {
        in_child(|| come_back_newest_first(size, first, most));
    }
}

fn come_back_newest_first(size: usize, first: u64, most: u64) {
    let class = size_class::of16(size);
    let take = || take(size);
    let mine = own();
    // SAFETY: the child has one thread.
    let listed = || unsafe { mine.listed(class) };
    let take_all = || (0..200).map(|_| take()).collect::<Vec<_>>();
    let mut blocks = take_all();
    mine.collect();
    blocks.iter().copied().for_each(free);
    assert!((first.div_ceil(2)..=first).contains(&listed()), "of {size} bytes, at first");
    // Each round finds the list full, and then empty.
    for _ in 0..8 {
        blocks = take_all();
        mine.collect();
        blocks.iter().copied().for_each(free);
        assert!(listed() <= most, "{} of {size} bytes", listed());
    }
    // A free that finds it full passes on all but half of it.
    assert!(listed() >= most / 2, "{} of {size} bytes, at last", listed());
    mine.collect();
    let count = most as usize;
    blocks = (0..count).map(|_| take()).collect();
    mine.collect();
    blocks.iter().copied().for_each(free);
    assert_eq!(listed(), most, "of {size} bytes, at last");
    let again: Vec<_> = (0..count).map(|_| take()).collect();
    assert!(again.iter().eq(blocks.iter().rev()), "{again:?} {blocks:?}");
    again.into_iter().for_each(free);
    mine.collect();
    assert_eq!(listed(), 0);
}

/// The child of a fork goes on with the countdowns of lists: what is on them counts as freed, and
/// they take no more than before.
#[test]
#[cfg_attr(feature = "hardened", ignore = "there the list has one of them")]
fn a_child_knows_what_frees_put_on_lists() {
    const SIZE: usize = 3000;
    let class = size_class::of16(SIZE);
    in_child(|| {
        let take = || take(SIZE);
        let mine = own();
        // SAFETY: this process and its child have one thread.
        let listed = || unsafe { mine.listed(class) };
        let allocated = || {
            let counted = u64::from(mine.counts.recent(class, counts::HeapEvent::Listed));
            counted + mine.shared().freed_to_list(class) - listed()
        };
        for _ in 0..4 {
            (0..100).map(|_| take()).collect::<Vec<_>>().into_iter().for_each(free);
        }
        let blocks: Vec<_> = (0..50).map(|_| take()).collect();
        assert_eq!(allocated(), 450);
        blocks[..10].iter().copied().for_each(free);
        let list = &mine.owner.front.lists[class];
        let (kept, most, at_fork) = (list.kept(), list.most.get() as u32, listed());
        assert!(kept > 1, "{kept} of {most}");
        assert!(goes_well_in_child(|| {
            assert_eq!((listed(), allocated(), list.kept()), (at_fork, 0, kept));
            blocks[10..].iter().copied().for_each(free);
            assert!(list.kept() < most, "{} for {most}", list.kept());
            let again: Vec<_> = (0..listed()).map(|_| take()).collect();
            assert_eq!(allocated(), again.len() as u64);
        }));
    });
}

/// A signal handler may free between the free that brings a countdown to zero and its slow path.
/// The list then has several blocks too many, and all of them go to their pages.
#[test]
#[cfg_attr(feature = "hardened", ignore = "there the list has one of them")]
fn a_list_that_went_beyond_its_room_comes_back() {
    const SIZE: usize = 3000;
    let class = size_class::of16(SIZE);
    in_child(|| {
        let take = || take(SIZE);
        let blocks: Vec<_> = (0..20).map(|_| take()).collect();
        let mine = own();
        let list = &mine.owner.front.lists[class];
        mine.collect();
        let most = list.most.get();
        // Two frees, as of handlers, that find the countdown at zero and below.
        list.until_slow.set(0);
        blocks[..2].iter().copied().for_each(free);
        assert_eq!(list.until_slow.get(), -2);
        // The free that they interrupted goes on.
        while let Some(beyond) = mine.take_beyond(class, 1) {
            assert_eq!(beyond.owner, mine.owner());
            assert!((1..20).contains(&beyond.count), "{}", beyond.count);
            // SAFETY: the blocks were on the list, and are this thread's.
            assert!(!unsafe { Heap::push_chain(&beyond) });
        }
        // SAFETY: the child has one thread.
        let listed = unsafe { mine.listed(class) };
        assert!(listed < most as u64 && list.until_slow.get() >= 1, "{listed}");
    });
}

/// A free that finds the list full passes on blocks until half of the list is left: in runs of one
/// page, and only as many as that needs.
#[test]
#[cfg_attr(feature = "hardened", ignore = "there the list has one of them")]
fn a_full_list_passes_on_runs_of_a_page() {
    const SIZE: usize = 3000;
    let class = size_class::of16(SIZE);
    in_child(|| {
        let mine = own();
        for _ in 0..8 {
            let blocks: Vec<_> = (0..100).map(|_| take(SIZE)).collect();
            mine.collect();
            blocks.into_iter().for_each(free);
        }
        let list = &mine.owner.front.lists[class];
        let most = list.most.get() as usize;
        let page_of = |p: *mut u8| crate::backend::page::lookup(p).unwrap().head().raw();
        let mut blocks: Vec<_> = (0..100).map(|_| take(SIZE)).collect();
        blocks.sort_by_key(|p| page_of(p.cast()));
        let there = page_of(blocks[99].cast());
        let (here, other): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|&p| page_of(p.cast()) != there);
        mine.collect();
        // The list gets blocks of two pages, four of one and four of the other by turns.
        let turns = here.chunks(4).zip(other.chunks(4)).flat_map(|(a, b)| [a, b]).flatten();
        let turns: Vec<_> = turns.copied().take(most).collect();
        assert_eq!(turns.len(), most, "of {}", other.len());
        turns[..most - 1].iter().copied().for_each(free);
        list.until_slow.set(0);
        let mut gone = 0;
        while let Some(beyond) = mine.take_beyond(class, 6) {
            let newest = &turns[most - 1 - gone - beyond.count as usize..most - 1 - gone];
            assert_eq!(beyond.first, newest[newest.len() - 1].cast());
            assert_eq!(beyond.last, newest[0].cast());
            assert!(newest.iter().all(|&p| page_of(p.cast()) == beyond.page.raw()));
            gone += newest.len();
            // SAFETY: the blocks were on the list, and are this thread's.
            _ = unsafe { Heap::push_chain(&beyond) };
        }
        assert_eq!((gone, list.until_slow.get()), (6, 6));
    });
}

/// At a fork, another thread may be between the end of a countdown and what follows.
#[test]
fn a_countdown_that_a_fork_found_at_its_end_goes_on() {
    in_child(|| {
        let mine = own();
        let list = &mine.owner.front.lists[size_class::of16(3000)];
        for (found, mended) in [(0, 1), (-1, 1), (list.most.get(), list.most.get())] {
            list.until_slow.set(found);
            mine.reset_counts();
            assert_eq!(list.until_slow.get(), mended);
        }
        assert_eq!(mine.owner.front.lists[0].until_slow.get(), 0, "frees do not go there");
    });
}

/// Frees of the page that the heap's list is of go to that list, those of other pages do not. The
/// counters see each.
#[test]
#[cfg_attr(feature = "hardened", ignore = "there all go to their page")]
fn what_was_freed_last_of_the_current_page_comes_first() {
    const SIZE: usize = 64;
    let class = size_class::of16(SIZE);
    in_child(|| {
        let mine = own();
        mine.collect();
        // More than a page has. The last ones are of the current page.
        let blocks: Vec<_> = (0..1500).map(|_| take(SIZE)).collect();
        // SAFETY: the child has one thread.
        let listed = || unsafe { mine.listed(class) };
        let allocated = || {
            let counted = u64::from(mine.counts.recent(class, counts::HeapEvent::Listed));
            counted + mine.shared().freed_to_list(class) - listed()
        };
        let (first, last, before) = (blocks[0], blocks[1499], allocated());
        free(first);
        free(last);
        assert_eq!(take(SIZE), last);
        assert_ne!(take(SIZE), first, "of another page");
        for round in 0..1000 {
            free(last);
            assert_eq!(take(SIZE), last, "{round}");
        }
        assert_eq!(allocated() - before, 1002);
        assert!(goes_well_in_child(|| {
            assert_eq!(allocated(), 0);
            free(last);
            assert_eq!((take(SIZE), allocated()), (last, 1));
        }));
        // On another page the same frees go to that page.
        let more: Vec<_> = (0..1500).map(|_| take(SIZE)).collect();
        let left = listed();
        free(last);
        assert_eq!(listed(), left);
        free(more[1499]);
        assert_eq!(listed(), left + 1);
    });
}

/// A look at the list finds what was freed twice, and what is no block. Each program ends.
#[test]
#[cfg_attr(feature = "hardened", ignore = "there frees find it")]
fn a_look_at_the_current_list_finds_errors() {
    const SIZE: usize = 64;
    let class = size_class::of16(SIZE);
    let ends = |wrong: fn(&[*mut u8])| {
        !goes_well_in_child(|| {
            let blocks: Vec<_> = (0..500).map(|_| take(SIZE)).collect();
            wrong(&blocks);
            own().current_over(class);
        })
    };
    assert!(!ends(|blocks| blocks.iter().copied().for_each(free)));
    assert!(ends(|blocks| [0, 1, 0].into_iter().for_each(|i| free(blocks[i]))));
    assert!(ends(|blocks| free(blocks[0].wrapping_add(16))));
    assert!(ends(|blocks| {
        free(blocks[0]);
        // SAFETY: the block's memory is accessible; the test writes a wrong link.
        unsafe { blocks[0].cast::<usize>().write(own() as *const Heap as usize) };
    }));
}

/// malloc finds what was freed twice with one between, whatever the program has written.
#[test]
#[cfg_attr(feature = "hardened", ignore = "there frees find it")]
fn malloc_finds_a_list_that_leads_back() {
    for order in [[0, 1, 0], [1, 2, 1]] {
        let goes_well = |frees: &[usize]| {
            goes_well_in_child(|| {
                let blocks: Vec<_> = (0..3).map(|_| take(40)).collect();
                frees.iter().for_each(|&i| free(blocks[i]));
                _ = take(40);
            })
        };
        assert!(goes_well(&order[..2]) && !goes_well(&order), "{order:?}");
    }
}

/// A page that is current no more gets its frees itself, also if its blocks come from a shared page
/// or after the heap gave its list back.
#[test]
#[cfg_attr(feature = "hardened", ignore = "there all go to their page")]
fn a_heap_that_leaves_a_page_says_so() {
    const SIZE: usize = 64;
    let class = size_class::of16(SIZE);
    in_child(|| {
        let mine = own();
        let block = take(SIZE);
        let page = page::lookup(block).unwrap().head();
        let list = core::ptr::from_ref(&mine.owner.front.lists[class]).cast_mut();
        assert_eq!(page.frees_to.get(), list);
        mine.busy(|| mine.leave_current(class));
        assert!(core::ptr::eq(page.frees_to.get(), &raw const page.list));
        let left = page.listed();
        free(block);
        assert_eq!((page.listed(), mine.shared().freed_to_list(class)), (left + 1, 0));
    });
}
