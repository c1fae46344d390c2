//! Correct programs notice nothing of sampled guards.
#![cfg(not(feature = "hardened"))]

use crate::oracle;

use hakmem_core::stats::Snapshot;
use hakmem_core::{Hakmem, c, options, profile};
use oracle::plain::{free, take};
use oracle::{Block, C, FrontEnd, Oracle, Random, Ranges, Rust, alone, elsewhere, in_child, share};
use std::alloc::{GlobalAlloc, Layout};

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// Mostly sizes that have classes, and some with an alignment.
fn layout_by(random: &mut Random) -> Layout {
    let size = match random.below(10) {
        0..4 => 1 + random.below(1024),
        4..9 => 1 + random.below(20_000),
        _ => 1 + random.below(100_000),
    };
    let shifts = if random.below(20) == 0 { 13 } else { 5 };
    let align = 1 << random.below(shifts);
    Layout::from_size_align(size, align).unwrap()
}

/// Random operations of one thread, some of whose blocks lie in guarded places.
fn operate<D: FrontEnd>(front_end: D) {
    options::set("GUARD_SAMPLE", "2").unwrap();
    let (ranges, mut random) = (Ranges::default(), Random(11));
    let mut oracle = Oracle::new(front_end, &ranges, 6);
    let mut blocks: Vec<Block> = Vec::new();
    for _ in 0..share(20_000) {
        match random.below(10) {
            0..3 => blocks.push(oracle.alloc(layout_by(&mut random))),
            3 => blocks.push(oracle.alloc_zeroed(layout_by(&mut random))),
            choice if !blocks.is_empty() => {
                let block = blocks.swap_remove(random.below(blocks.len()));
                match choice {
                    // Often in the same class.
                    4..7 => {
                        let size = block.size() + 1 + random.below(block.size() / 8 + 1);
                        blocks.push(oracle.realloc(block, size));
                    }
                    7 => {
                        let size = layout_by(&mut random).size();
                        // A guarded block moves, even to the size that it has.
                        let size = size + usize::from(size == block.size());
                        blocks.push(oracle.realloc(block, size));
                    }
                    _ => oracle.dealloc(block),
                }
            }
            _ => {}
        }
        if blocks.len() > 200 {
            let block = blocks.swap_remove(random.below(blocks.len()));
            oracle.dealloc(block);
        }
    }
    blocks.into_iter().for_each(|block| oracle.dealloc(block));
    ranges.assert_empty();
}

#[test]
fn random_operations_of_rust() {
    in_child(|| operate(Rust));
}

#[test]
fn random_operations_of_c() {
    in_child(|| operate(C));
}

/// A list may be cut before a sample of the profile and then before a guarded block. All of its
/// blocks are still there.
#[test]
fn the_profile_and_guards_share_lists() {
    in_child(|| {
        assert!(hakmem_core::profile::start(4096));
        options::set("GUARD_SAMPLE", "50").unwrap();
        let ranges = Ranges::default();
        let mut oracle = Oracle::new(Rust, &ranges, 7);
        for round in 0..share(40) {
            let mut blocks: Vec<_> = (0..2_000).map(|_| oracle.alloc(layout(64))).collect();
            if round % 2 == 0 {
                blocks.reverse();
            }
            blocks.into_iter().for_each(|block| oracle.dealloc(block));
        }
        ranges.assert_empty();
    });
}

/// A guarded block above 1 KiB has the bytes of its request, fewer than its class has.
#[test]
fn a_block_that_grows_in_its_class_has_the_bytes_of_the_new_request() {
    in_child(|| {
        options::set("GUARD_SAMPLE", "1").unwrap();
        let (old, new) = (layout(1100), 1200);
        let mut guarded = 0;
        for _ in 0..20 {
            // SAFETY: the block is live, of the layout `old`, then of 1200 bytes.
            unsafe {
                let p = Hakmem.alloc(old);
                guarded += usize::from(c::usable_size(p) == old.size());
                let p = Hakmem.realloc(p, old, new);
                assert!(c::usable_size(p) >= new, "{}", c::usable_size(p));
                p.write_bytes(1, new);
                Hakmem.dealloc(p, layout(new));
            }
        }
        assert!(guarded > 0, "no block was guarded");
    });
}

/// Allocates `count` blocks of `size` bytes, of which five live at a time. Returns how many were
/// guarded. `size` is not that of a class.
fn guarded_of(count: usize, size: usize) -> usize {
    let (mut guarded, mut blocks) = (0, [std::ptr::null_mut(); 5]);
    for i in 0..count {
        let p = take(size);
        // SAFETY: the block is live.
        guarded += usize::from(unsafe { c::usable_size(p) } == size);
        free(std::mem::replace(&mut blocks[i % 5], p));
    }
    blocks.into_iter().for_each(free);
    guarded
}

/// 400 are to be expected, with a deviation of 12. The option is off meanwhile, and takes up its
/// old value.
#[test]
fn one_block_in_so_many_is_guarded() {
    for size in [100, 1100, 5000] {
        in_child(|| {
            for _ in 0..3 {
                options::set("GUARD_SAMPLE", "50").unwrap();
                let guarded = guarded_of(20_000, size);
                assert!(
                    (320..480).contains(&guarded),
                    "{guarded} blocks of {size} bytes"
                );
                options::set("GUARD_SAMPLE", "0").unwrap();
                // What is on the list may have been cut for a sample.
                guarded_of(1000, size);
                assert_eq!(guarded_of(1000, size), 0, "{size} bytes");
            }
        });
    }
}

/// Runs `f`, and returns how many refills of the class for `size` bytes that took.
fn refills(size: usize, f: impl FnOnce()) -> u64 {
    let refills = || {
        let snapshot = Snapshot::take();
        let class = snapshot.classes().find(|class| class.size >= size as u64);
        class.expect("a class").refills()
    };
    let before = refills();
    f();
    refills() - before
}

/// Allocates 100 blocks of `size` bytes, half of them at once, and each other one after the free of
/// one. Returns how many refills that took.
fn refills_of_100(size: usize) -> u64 {
    refills(size, || {
        let blocks: Vec<_> = (0..50).map(|_| take(size)).collect();
        for block in blocks {
            free(block);
            free(take(size));
        }
    })
}

/// A thread that shares pages keeps blocks of them on its lists, too.
#[test]
fn behind_a_filter_lists_keep_shared_blocks() {
    alone("behind_a_filter_lists_keep_shared_blocks", || {
        c::set_filtered(true);
        options::set("SHARED_FROM_HEAPS", "1").unwrap();
        options::set("GUARD_SAMPLE", "2").unwrap();
        free(take(48));
        elsewhere(|| {
            let refills = refills(32, || (0..100).for_each(|_| free(take(32))));
            assert!(refills <= 2, "{refills} refills");
        });
    });
}

/// A filter may end the process for a call that only guards make. So no list ends for one, and only
/// the profile takes samples.
#[test]
fn behind_a_filter_lists_serve_as_ever() {
    alone("behind_a_filter_lists_serve_as_ever", || {
        c::set_filtered(true);
        options::set("GUARD_SAMPLE", "2").unwrap();
        for (size, most) in [(100, 20), (2000, 40)] {
            let refills = refills_of_100(size);
            assert!(refills <= most, "{refills} refills for {size} bytes");
        }
        assert!(profile::start(1));
        for size in [104, 2004] {
            // What is on lists is no sample, nor are some blocks that come back to them.
            (0..4).for_each(|_| _ = refills_of_100(size));
            assert!(refills_of_100(size) >= 90, "{size} bytes");
        }
        profile::stop();
        for (size, most) in [(100, 20), (2000, 40)] {
            let refills = refills_of_100(size);
            assert!(
                refills <= most,
                "{refills} refills for {size} bytes, after the profile"
            );
        }
    });
}
