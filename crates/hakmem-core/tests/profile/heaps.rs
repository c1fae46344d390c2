//! Blocks of program heaps in the profile: own blocks, and those that scopes route.

use super::{Block, alone, in_child, keep_thirds, since, stands_for, stands_for_both};
use crate::samples::{Samples, room, samples};
use hakmem_core::profile;
use hakmem_core::{Heap, c};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::thread;

/// Of a class, of whole slots, and of whole segments: with the number of blocks to allocate.
const SIZES: [(usize, u64); 7] = [
    (16, 100_000),
    (112, 50_000),
    (640, 20_000),
    (5000, 4_000),
    (60_000, 300),
    (100_000, 300),
    (3 << 20, 20),
];

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).unwrap()
}

fn take(heap: &Heap, size: usize) -> NonNull<u8> {
    heap.allocate(layout(size)).expect("memory").cast()
}

/// Bytes of the block for an own request of `size`.
fn usable(heap: &Heap, size: usize) -> u64 {
    let p = take(heap, size);
    // SAFETY: the block is live.
    let usable = room(unsafe { c::usable_size(p.as_ptr()) });
    // SAFETY: the block is live, and has this layout.
    unsafe { heap.deallocate(p, layout(size)) };
    usable
}

fn live(before: &BTreeMap<u64, Samples>, size: u64) -> u64 {
    since(before, size).live
}

#[test]
fn own_blocks_are_estimated_rightly_and_each_free_is_seen() {
    let _alone = alone();
    let heap = Heap::named("own");
    for (size, count) in SIZES {
        let before = samples();
        let usable = usable(&heap, size);
        let mut kept = Vec::new();
        for i in 1..count {
            let p = take(&heap, size);
            if i % 3 == 0 {
                kept.push(p);
            } else {
                // SAFETY: the block is live, and has this layout.
                unsafe { heap.deallocate(p, layout(size)) };
            }
        }
        let mid = stands_for_both(&before, kept.len(), count, usable);
        // `free` takes blocks of any heap.
        for (i, p) in kept.into_iter().enumerate() {
            // SAFETY: the block is live, and has this layout.
            unsafe {
                match i % 2 {
                    0 if !cfg!(feature = "hardened") => c::free(p.as_ptr()),
                    _ => heap.deallocate(p, layout(size)),
                }
            }
        }
        let end = since(&before, usable);
        assert_eq!((end.live, end.all), (0, mid.all), "{size}");
    }
}

/// At 14 intervals and more, every block is a sample.
#[test]
fn a_reset_and_the_end_of_a_heap_free_its_samples() {
    let _alone = alone();
    let (mut heap, other) = (Heap::named("reset"), Heap::named("other"));
    for size in [60_000, 100_000, 3 << 20] {
        let usable = usable(&heap, size);
        let before = samples();
        take(&other, size);
        for _ in 0..3 {
            let _ = [(); 5].map(|()| take(&heap, size));
            assert_eq!(live(&before, usable), 6, "{size}");
            heap.reset();
            assert_eq!(live(&before, usable), 1, "{size}: that of the other heap");
        }
    }
    let usable = usable(&heap, 60_000);
    let before = samples();
    take(&heap, 60_000);
    drop(heap);
    assert_eq!(live(&before, usable), 0);
    drop(other);
    assert_eq!(live(&before, usable), 0_u64.wrapping_sub(1));
}

/// A block of another heap at the same place is no sample for that.
#[test]
fn small_samples_of_a_reset_are_not_found_again() {
    let _alone = alone();
    let mut heap = Heap::new();
    let usable = usable(&heap, 112);
    let before = samples();
    for _ in 0..20 {
        let _ = [(); 2000].map(|()| take(&heap, 112));
        let mid = live(&before, usable);
        assert!(mid > 20, "{mid}");
        heap.reset();
        assert_eq!(live(&before, usable), 0);
    }
    stands_for(since(&before, usable).all, 40_000, usable);
    profile::stop();
    let blocks: Vec<_> = (0..2000).map(|_| take(&heap, 112)).collect();
    // SAFETY: the blocks are live, and have this layout.
    blocks
        .into_iter()
        .for_each(|p| unsafe { heap.deallocate(p, layout(112)) });
    assert_eq!(live(&before, usable), 0);
}

#[test]
fn blocks_of_a_scope_are_estimated_rightly() {
    let _alone = alone();
    for (size, count) in SIZES {
        let heap = Heap::named("routed");
        let usable = heap.scope(|| Block::new(size).usable());
        let before = samples();
        let kept = heap.scope(|| keep_thirds(count, size));
        let mid = stands_for_both(&before, kept.len(), count, usable);
        drop(heap);
        assert_eq!(live(&before, usable), mid.live, "they outlive the heap");
        thread::scope(|scope| drop(scope.spawn(|| kept.into_iter().for_each(drop))));
        let end = since(&before, usable);
        assert_eq!((end.live, end.all), (0, mid.all), "{size}");
    }
}

/// Blocks that a scope puts back change nothing, nor do calls for other sizes meanwhile.
#[test]
fn short_scopes_are_estimated_rightly() {
    const ROUNDS: u64 = 40_000;
    let _alone = alone();
    let heap = Heap::named("short");
    let sizes = [48, 112, 640];
    let usable = heap.scope(|| sizes.map(|size| Block::new(size).usable()));
    let before = samples();
    for i in 0..ROUNDS {
        heap.scope(|| {
            drop(Block::new(sizes[0]));
            drop((Block::new(sizes[1]), Block::new(sizes[1])));
            if i % 4 == 0 {
                drop(Block::new(sizes[2]));
            }
        });
    }
    for (size, count) in usable.into_iter().zip([ROUNDS, 2 * ROUNDS, ROUNDS / 4]) {
        let end = since(&before, size);
        stands_for(end.all, count, size);
        assert_eq!(end.live, 0);
    }
}

/// A scope that the limit gives fewer blocks than it looked at.
#[test]
fn a_scope_at_its_limit_is_estimated_rightly() {
    const ROUNDS: u64 = 20_000;
    let _alone = alone();
    let heap = Heap::builder().limit(4 * 112).build();
    let usable = heap.scope(|| Block::new(100).usable());
    let before = samples();
    heap.scope(|| {
        for round in 0..ROUNDS {
            // SAFETY: any size may be asked for.
            let four = [(); 4].map(|()| unsafe { c::malloc(100) });
            // SAFETY: malloc asks nothing of its caller.
            assert!(round % 2 == 0 || unsafe { c::malloc(100) }.is_null());
            four.into_iter().for_each(|p| drop(Block::at(p, 100)));
        }
    });
    let end = since(&before, usable);
    stands_for(end.all, 4 * ROUNDS, usable);
    assert_eq!(end.live, 0);
}

#[test]
fn an_own_block_that_grows_counts_as_another() {
    let _alone = alone();
    let heap = Heap::new();
    let sizes = [60_000, 100_000, 3 << 20, 7 << 20, 30 << 20];
    let usable = sizes.map(|size| usable(&heap, size));
    let before = samples();
    let mut p = take(&heap, sizes[0]);
    for pair in sizes.windows(2) {
        let (old, new) = (layout(pair[0]), layout(pair[1]));
        // SAFETY: the block is live, and has the old layout.
        p = unsafe { heap.reallocate(p, old, new) }
            .expect("memory")
            .cast();
    }
    let counts = usable.map(|size| (since(&before, size).live, since(&before, size).all));
    assert_eq!(counts, [(0, 1), (0, 1), (0, 1), (0, 1), (1, 1)]);
    // SAFETY: the block is live, and has this layout.
    unsafe { heap.deallocate(p, layout(sizes[4])) };
    assert_eq!(live(&before, usable[4]), 0);
}

/// A refused request is no sample, and a block that stays at its place stays one.
#[test]
fn a_request_beyond_the_limit_changes_nothing() {
    let _alone = alone();
    let heap = Heap::builder().limit(8 << 20).build();
    let before = samples();
    let p = take(&heap, 3 << 20);
    let size = 4 << 20;
    // SAFETY: the block is live, and has the old layout.
    let refused = unsafe { heap.reallocate(p, layout(3 << 20), layout(11 << 20)) };
    assert!(refused.is_err() && heap.allocate(layout(9 << 20)).is_err());
    assert_eq!(since(&before, size), Samples { live: 1, all: 1 });
    // SAFETY: the block is live, and has this layout.
    unsafe { heap.deallocate(p, layout(3 << 20)) };
    assert_eq!(since(&before, size), Samples { live: 0, all: 1 });
}

#[test]
fn the_child_of_a_fork_goes_on_with_the_samples() {
    let _alone = alone();
    let mut heap = Heap::named("forked");
    let usable = usable(&heap, 60_000);
    let before = samples();
    let blocks = [(); 3].map(|()| take(&heap, 60_000));
    in_child(|| {
        assert_eq!(
            samples()[&usable].live,
            before.get(&usable).map_or(0, |s| s.live) + 3
        );
        let before = samples();
        // SAFETY: the block is live, and has this layout.
        unsafe { heap.deallocate(blocks[0], layout(60_000)) };
        take(&heap, 60_000);
        assert_eq!(since(&before, usable), Samples { live: 0, all: 1 });
        heap.reset();
        assert_eq!(live(&before, usable), 0_u64.wrapping_sub(3));
    });
    assert_eq!(live(&before, usable), 3);
    heap.reset();
    assert_eq!(live(&before, usable), 0);
}

/// Threads share a heap. Each draws its own samples, and any frees them.
#[test]
fn threads_of_one_heap_are_one_profile() {
    const EACH: u64 = 20_000;
    let _alone = alone();
    let heap = Heap::named("shared");
    let usable = usable(&heap, 320);
    let before = samples();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut kept = Vec::new();
                for i in 0..EACH {
                    let p = take(&heap, 320);
                    if i % 100 == 0 {
                        kept.push(p);
                    } else {
                        // SAFETY: the block is live, and has this layout.
                        unsafe { heap.deallocate(p, layout(320)) };
                    }
                }
                // SAFETY: the blocks are live ones of this heap, with this layout, and the test
                // gives them up.
                kept.into_iter()
                    .for_each(|p| unsafe { heap.deallocate(p, layout(320)) });
            });
        }
    });
    let end = since(&before, usable);
    stands_for(end.all, 3 * EACH, usable);
    assert_eq!(end.live, 0);
}
