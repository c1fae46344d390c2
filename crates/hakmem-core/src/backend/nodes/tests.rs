//! Threads that pretend to be on several nodes.

extern crate std;

use super::*;
use crate::api::c;
use crate::backend::arena::{self, GROUP, SEGMENT, SLOT};
use crate::backend::segment;
use crate::heap::all::heaps_made;
use crate::large::huge;
use crate::os::on_node;
use crate::policy;
use crate::testing::{Random, alone, goes_well_in_child, in_child, keep_nothing_back};
use crate::{purge, thread};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Barrier, Mutex};
use std::vec::Vec;

#[test]
fn each_group_is_of_one_node() {
    in_child(|| {
        assert!(Groups::of(0) == Groups::ALL && count() == 1);
        for (node, nodes) in [(1, 2), (0, 2), (2, 4), (3, 4), (5, 8), (9, 8)] {
            let _on = on_node(node);
            assert_eq!((here(), count()), (node as usize % 8, nodes));
            for group in 0..200 {
                let is_in = |node| Groups::of(node).0 >> (group % 64) & 1 == 1;
                let of: Vec<_> = (0..nodes).filter(|&node| is_in(node)).collect();
                assert_eq!(of, [of_group(group)]);
                for node in 0..nodes {
                    let next = (group..).find(|&g| of_group(g) == node);
                    assert_eq!(Some(Groups::of(node).next(group)), next);
                }
            }
        }
    });
}

/// Allocates a block and writes to it.
fn take(size: usize) -> usize {
    // SAFETY: any size may be asked for, and the block has so many bytes.
    unsafe {
        let p = c::malloc(size);
        assert!(!p.is_null());
        p.write_bytes(1, size.min(10_000));
        p.expose_provenance()
    }
}

/// Frees a block of `take`.
fn give(p: usize) {
    // SAFETY: `p` is from `take`, and each test frees a block once.
    unsafe { c::free(arena::at(p)) };
}

/// The node of the group that a block lies in.
fn node_of(p: usize) -> usize {
    let (_, slot) = arena::find(p).expect("a block");
    of_group(slot * SLOT / SEGMENT / GROUP)
}

/// Runs `f` in a thread on `node`.
fn on<R: Send>(node: u32, f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let run = || {
            let _on = on_node(node);
            f()
        };
        scope.spawn(run).join().expect("no failure")
    })
}

/// Pages of one slot and of eight, large blocks, and huge ones.
const SIZES: [usize; 6] = [5000, 20_000, 60_000, 200_000, 900_000, 3 << 20];

/// Blocks of all sizes, `count` of them.
fn take_some(count: usize) -> Vec<usize> {
    (0..count).map(|i| take(SIZES[i % SIZES.len()])).collect()
}

#[test]
fn threads_get_memory_of_their_node() {
    alone("backend::nodes::tests::threads_get_memory_of_their_node", || {
        keep_nothing_back();
        // Threads of all nodes share pages, and take parked ones (`heap::reclaim::parked`).
        policy::SHARED_FROM_HEAPS.set(0);
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for node in 0..2 {
                let both = &both;
                scope.spawn(move || {
                    let _on = on_node(node as u32);
                    give(take(100));
                    both.wait();
                    // The thread of the first heap asks for its node at its next claim.
                    give(take(SIZES[3]));
                    both.wait();
                    let blocks = take_some(600);
                    both.wait();
                    assert!(blocks.iter().all(|&block| node_of(block) == node));
                    // What is free serves threads of its node again.
                    let whole: BTreeSet<_> =
                        blocks.iter().copied().filter(|p| p.is_multiple_of(SLOT)).collect();
                    blocks.into_iter().for_each(give);
                    both.wait();
                    let again = [(); 20].map(|()| take(SIZES[5]));
                    assert!(again.iter().all(|block| whole.contains(block)));
                    again.into_iter().for_each(give);
                });
            }
        });
        assert_eq!(count(), 2);
    });
}

/// The first thread asks for its node once there is another.
#[test]
fn the_first_heap_learns_its_node_later() {
    alone("backend::nodes::tests::the_first_heap_learns_its_node_later", || {
        let _on = on_node(1);
        let block = take(60_000);
        assert_eq!((node_of(block), count()), (0, 1));
        on(0, || give(take(1)));
        let blocks = [(); 20].map(|()| take(200_000));
        assert_eq!(count(), 2);
        assert!(blocks.iter().all(|&block| node_of(block) == 1));
        blocks.into_iter().chain([block]).for_each(give);
    });
}

#[test]
fn blocks_that_another_node_frees_go_home() {
    alone("backend::nodes::tests::blocks_that_another_node_frees_go_home", || {
        keep_nothing_back();
        policy::SHARED_FROM_HEAPS.set(0);
        on(0, || give(take(1)));
        let blocks = on(1, || take_some(300));
        assert!(blocks.iter().all(|&block| node_of(block) == 1));
        on(0, || {
            blocks.iter().copied().for_each(give);
            let own = take_some(300);
            // Large blocks and huge ones. Pages that the other thread left may serve any thread.
            let mut whole =
                own.chunks_exact(SIZES.len()).flat_map(|of_all_sizes| &of_all_sizes[3..]);
            assert!(whole.all(|&block| node_of(block) == 0));
            own.into_iter().for_each(give);
        });
        // The huge blocks and the slots are there for the next thread of their node.
        let huge = |of: &[usize]| -> BTreeSet<_> {
            of.iter().copied().skip(5).step_by(SIZES.len()).collect()
        };
        let again = on(1, || take_some(300));
        assert!(!huge(&again).is_disjoint(&huge(&blocks)));
        again.into_iter().for_each(give);
    });
}

#[test]
fn a_thread_adopts_a_heap_of_its_node_first() {
    alone("backend::nodes::tests::a_thread_adopts_a_heap_of_its_node_first", || {
        let heap = || {
            give(take(1));
            match thread::state() {
                thread::ThreadState::Live(heap) => core::ptr::from_ref(heap).addr(),
                _ => panic!("no heap"),
            }
        };
        let both = Barrier::new(2);
        let of_both = |nodes: [u32; 2]| {
            std::thread::scope(|scope| {
                let threads = nodes.map(|node| {
                    let both = &both;
                    scope.spawn(move || {
                        let _on = on_node(node);
                        let own = heap();
                        both.wait();
                        own
                    })
                });
                threads.map(|thread| thread.join().unwrap())
            })
        };
        on(0, heap); // The first heap of a process does not ask.
        let [zero, one] = of_both([0, 1]);
        for _ in 0..3 {
            assert_eq!((on(1, heap), on(0, heap)), (one, zero));
        }
        let made = heaps_made();
        let taken = of_both([1, 1]);
        assert_eq!(taken.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from([zero, one]));
        assert_eq!(heaps_made(), made, "a heap of another node serves before one is made");
        // Both are of node 1 by now.
        assert!([zero, one].contains(&on(0, heap)));
    });
}

#[test]
fn a_node_without_room_gets_memory_of_others() {
    alone("backend::nodes::tests::a_node_without_room_gets_memory_of_others", || {
        on(0, || give(take(1)));
        let _on = on_node(1);
        give(take(100));
        // All groups of the node in the first arena are taken.
        let mut runs = Vec::new();
        for len in [GROUP, 1] {
            while let Some(run) = arena::take_run(len, 1, 0, Groups::of(1)) {
                runs.push((run, len));
                if of_group(run.1 / GROUP) != 1 {
                    break;
                }
            }
        }
        assert!(runs.len() > 3);
        let before = segment::in_use();
        let blocks = [(); 2000].map(|()| take(60_000));
        // The node has a segment that is not full.
        assert!(blocks[40..].iter().all(|&block| node_of(block) == 0));
        // Each claim goes on with the segment of the one before.
        let needed = blocks.len() * 60_000 / SEGMENT;
        assert!(segment::in_use() - before < needed + needed / 4, "{needed} would do");
        blocks.into_iter().for_each(give);
        runs.into_iter().for_each(|(run, len)| {
            // SAFETY: the run is this test's, and nobody has touched it.
            unsafe { arena::give_run(run, len) };
        });
        assert_eq!(node_of(take(40 << 20)), 1, "there is room again");
    });
}

/// A thread that only frees large blocks of another node keeps none of them.
#[test]
fn who_only_frees_keeps_nothing_of_another_node() {
    alone("backend::nodes::tests::who_only_frees_keeps_nothing_of_another_node", || {
        keep_nothing_back();
        on(1, || give(take(1)));
        let blocks = on(1, || [(); 8].map(|()| take(200_000)));
        let _on = on_node(0);
        let own = take(200_000);
        assert_eq!(node_of(own), 0);
        blocks.into_iter().for_each(give);
        let again = [(); 8].map(|()| take(200_000));
        assert!(again.iter().all(|&block| node_of(block) == 0));
        [own].into_iter().chain(again).for_each(give);
    });
}

/// The oldest run leaves, whichever node it is of.
#[test]
fn what_a_node_left_makes_room_for_others() {
    alone("backend::nodes::tests::what_a_node_left_makes_room_for_others", || {
        keep_nothing_back();
        policy::HUGE_CACHE_MIB.set(64);
        policy::HUGE_CACHE_PERCENT.set(0);
        on(1, || {
            let blocks = [(); 5].map(|()| take(11 << 20));
            // Every other one, so that none joins another.
            for block in blocks.into_iter().step_by(2) {
                give(block);
            }
        });
        let before = os::now_ms();
        while os::now_ms() == before {
            std::thread::yield_now();
        }
        on(0, || {
            let block = take(31 << 20);
            give(block);
            let hits = huge::counts().2;
            give(take(31 << 20));
            assert_eq!(huge::counts().2, hits + 1, "it was not kept");
        });
    });
}

#[test]
fn the_huge_cache_of_all_nodes_is_bounded_and_purged() {
    alone("backend::nodes::tests::the_huge_cache_of_all_nodes_is_bounded_and_purged", || {
        keep_nothing_back();
        policy::HUGE_CACHE_MIB.set(64);
        policy::HUGE_CACHE_PERCENT.set(0);
        policy::SCAVENGE_MIB.set(0); // Else the fork purges.
        for node in [0, 1, 2, 0, 3] {
            on(node, || {
                let blocks = [(); 12].map(|()| take(3 << 20));
                blocks.into_iter().for_each(give);
            });
            assert!((32 << 20..=64 << 20).contains(&huge::cached_bytes()), "{node}");
        }
        assert_eq!(count(), 4);
        let goes_well = goes_well_in_child(|| {
            assert!(huge::cached_bytes() > 0);
            purge::all();
            assert_eq!(huge::cached_bytes(), 0);
        });
        assert!(goes_well);
        purge::all();
        assert_eq!(huge::cached_bytes(), 0);
    });
}

/// Blocks move between threads of three nodes. Their contents say whose they are.
#[test]
fn random_operations_on_several_nodes() {
    alone("backend::nodes::tests::random_operations_on_several_nodes", || {
        let shared: Mutex<BTreeMap<usize, (usize, u8)>> = Mutex::default();
        std::thread::scope(|scope| {
            for node in 0..3u32 {
                let shared = &shared;
                scope.spawn(move || {
                    let mut random = Random(u64::from(node) + 1);
                    for round in 0..4 {
                        let _on = on_node(node + round % 2);
                        for _ in 0..1500 {
                            let most = [100, 9000, 300_000, 5 << 20][random.below(4)];
                            let size = 1 + random.below(most);
                            let (block, mark) = (take(size), random.below(256) as u8);
                            let end = (size - 1).min(9999);
                            // SAFETY: the block has `size` bytes.
                            unsafe {
                                arena::at(block).write(mark);
                                arena::at(block + end).write(mark);
                            }
                            let mut shared = shared.lock().unwrap();
                            assert_eq!(shared.insert(block, (end, mark)), None, "given out twice");
                            if shared.len() > 40 {
                                let from = shared.keys().nth(random.below(40)).copied().unwrap();
                                let (end, mark) = shared.remove(&from).unwrap();
                                // SAFETY: the block is live, and this thread alone frees it.
                                let found = unsafe {
                                    [arena::at(from).read(), arena::at(from + end).read()]
                                };
                                assert_eq!(found, [mark; 2], "overwritten");
                                give(from);
                            }
                        }
                    }
                });
            }
        });
        shared.lock().unwrap().keys().copied().for_each(give);
    });
}

/// A thread that the child does not have held the lock of a part of the huge cache.
#[test]
fn a_child_of_a_fork_repairs_the_parts_of_all_nodes() {
    alone("backend::nodes::tests::a_child_of_a_fork_repairs_the_parts_of_all_nodes", || {
        keep_nothing_back();
        for node in [0, 1] {
            on(node, || give(take(3 << 20)));
        }
        let before = huge::cached_bytes();
        let (both, over) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let held = huge::further_locks().next().expect("two nodes").lock();
                both.wait();
                over.wait();
                drop(held);
            });
            both.wait();
            let goes_well = goes_well_in_child(|| {
                assert_eq!(huge::cached_bytes(), before / 2, "the other half is lost");
                for node in [1, 0] {
                    let _on = on_node(node);
                    give(take(3 << 20));
                }
            });
            over.wait();
            assert!(goes_well);
        });
        assert_eq!(huge::cached_bytes(), before);
    });
}
