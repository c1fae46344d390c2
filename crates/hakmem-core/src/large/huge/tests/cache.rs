//! The cache of huge blocks.

extern crate std;

use super::*;
use crate::large::huge::cache::{RING, oldest};
use crate::policy;
use crate::testing::{in_child, keep_nothing_back};

#[test]
fn the_cache_gives_its_oldest_up() {
    in_child(|| {
        // SAFETY: a block from `malloc`, freed once. It makes hakmem reserve an arena.
        unsafe { c::free(c::malloc(3 << 20)) };
        let arena = arena::all().next().unwrap();
        let mut entries = [None; RING];
        assert_eq!(oldest(&entries, 7), None);
        // Stamps wrap.
        for (i, age) in [(3, 5), (7, 20), (9, 8)] {
            entries[i] = Some(Entry {
                run: (arena, i),
                len: 1,
                stamp: 7u32.wrapping_sub(age),
                moved: false.into(),
                thp: false.into(),
                tried: 0,
            });
        }
        assert_eq!(oldest(&entries, 7), Some(7));
    });
}

#[test]
fn what_is_taken_whole_leaves_nothing_in_the_cache() {
    in_child(|| {
        keep_nothing_back();
        forget_part(0);
        let entries =
            || with_part(0, |entries| entries.iter().flatten().map(|e| e.len).sum::<usize>());
        let count = || with_part(0, |entries| entries.iter().flatten().count());
        // SAFETY: `p` and the blocks cut from the same run come from `malloc`, and each is
        // freed once.
        unsafe {
            let p = c::malloc(3 * SEGMENT - BEHIND);
            c::free(p);
            assert_eq!((entries(), count(), cached_bytes()), (3, 1, 3 * SEGMENT));
            assert_eq!(c::malloc(2 * SEGMENT - BEHIND), p);
            assert_eq!((entries(), count(), cached_bytes()), (1, 1, SEGMENT));
            assert_eq!(c::malloc(SEGMENT - BEHIND), p.wrapping_add(2 * SEGMENT));
            assert_eq!((entries(), count(), cached_bytes()), (0, 0, 0));
            c::free(p);
            c::free(p.wrapping_add(2 * SEGMENT));
        }
    });
}

#[test]
fn a_full_cache_lets_go_of_no_more_than_it_has_too_much() {
    in_child(|| {
        keep_nothing_back();
        forget_part(0);
        policy::HUGE_CACHE_MIB.set(20);
        policy::HUGE_CACHE_PERCENT.set(0);
        // Neighbours become one run.
        let blocks = [(); 20].map(|()| block(1));
        for (i, p) in blocks.into_iter().enumerate() {
            // SAFETY: the block comes from `malloc`, and is freed once.
            unsafe { c::free(p) };
            assert_eq!(cached_bytes(), (i + 1).min(10) * SEGMENT);
        }
        let before = counts().2;
        _ = [(); 10].map(|()| block(1));
        assert_eq!((counts().2 - before, cached_bytes()), (10, 0), "all are hits");
        // SAFETY: the block comes from `malloc`, and is freed once.
        unsafe { c::free(block(11)) };
        assert_eq!(cached_bytes(), 0, "a block that is too long does not stay");
    });
}

/// Frees so many blocks of a segment in a process of which half of what was live lately may stay.
fn free_all_of<const COUNT: usize>() {
    keep_nothing_back();
    forget_part(0);
    policy::HUGE_CACHE_MIB.set(2);
    policy::HUGE_CACHE_PERCENT.set(50);
    policy::DECAY_MS.set(60_000);
    for p in [(); COUNT].map(|()| block(1)) {
        // SAFETY: the block comes from `malloc`, and is freed once.
        unsafe { c::free(p) };
    }
}

#[test]
fn what_was_live_lately_may_stay() {
    in_child(|| {
        free_all_of::<20>();
        assert_eq!(cached_bytes(), 10 * SEGMENT, "half of what was live");
    });
}

/// A request that finds no run takes as much of the bound as it has bytes.
#[test]
fn what_does_not_fit_makes_room() {
    in_child(|| {
        free_all_of::<40>();
        assert_eq!(cached_bytes(), 20 * SEGMENT, "half of what was live");
        // No run of the cache begins at such a place.
        // SAFETY: the block is not freed.
        assert!(!unsafe { c::memalign(1 << 30, 21 * SEGMENT - BEHIND) }.is_null());
        assert_eq!(cached_bytes(), 10 * SEGMENT, "half of what is live");
    });
}

/// What was freed lately counts as needed again once smaller blocks have taken as much.
#[test]
fn the_cache_makes_room_for_smaller_blocks() {
    for size in [1000, 100_000] {
        in_child(|| {
            free_all_of::<20>();
            assert_eq!(cached_bytes(), 10 * SEGMENT, "half of what was live");
            for _ in 0..40 * SEGMENT / size {
                // SAFETY: any size may be asked for. The block is not freed.
                assert!(!unsafe { c::malloc(size) }.is_null());
            }
            assert!(cached_bytes() <= 2 * SEGMENT, "{} beside {size}", cached_bytes());
        });
    }
}

/// A request that no run fits takes the longest one, and unused segments behind it.
#[test]
fn the_longest_run_is_extended() {
    in_child(|| {
        keep_nothing_back();
        forget_part(0);
        // SAFETY: each block comes from `malloc`, `calloc` or `realloc`, has as many segments, and
        // is used until it is freed or resized.
        unsafe {
            let held = held::bytes();
            let p = block(8);
            p.write_bytes(1, 4 * SEGMENT);
            assert_eq!(c::realloc(p, 4 * SEGMENT - BEHIND), p, "what lies behind it is unused");
            let wall = block(1);
            c::free(p);
            let between = wall == p.wrapping_add(4 * SEGMENT);
            let q = block(6);
            if between {
                assert_ne!(q, p, "a block lies in between");
                assert_eq!(cached_bytes(), 4 * SEGMENT);
            }
            c::free(q);
            c::free(wall);
            c::trim();
            let p = block(8);
            p.write_bytes(1, 4 * SEGMENT);
            c::realloc(p, 4 * SEGMENT - BEHIND);
            c::free(p);
            let zeroed = c::zeroed(6 * SEGMENT - BEHIND);
            assert!(zeroed != p && (0..6 * SEGMENT - BEHIND).all(|i| zeroed.add(i).read() == 0));
            c::free(zeroed);
            c::trim();
            let p = block(8);
            p.write_bytes(1, 4 * SEGMENT);
            c::realloc(p, 4 * SEGMENT - BEHIND);
            c::free(p);
            assert_eq!(block(6), p);
            assert_eq!((cached_bytes(), held::bytes()), (0, held + 6 * SEGMENT));
            p.write_bytes(2, 6 * SEGMENT - BEHIND);
            c::free(p);
            c::trim();
            assert_eq!((held::bytes(), cached_bytes()), (held, 0));
        }
    });
}

/// A block grows into the run of the cache that begins behind it, and into what is unused behind
/// that.
#[test]
#[cfg_attr(feature = "hardened", ignore = "its realloc moves blocks")]
fn a_block_grows_into_the_cache() {
    in_child(|| {
        keep_nothing_back();
        forget_part(0);
        // SAFETY: each block comes from `malloc` or `realloc`, has as many segments, and is used
        // until it is freed or resized.
        unsafe {
            let resize = |p, segments: usize| c::realloc(p, segments * SEGMENT - BEHIND);
            let held = held::bytes();
            let p = block(8);
            p.write_bytes(1, 4 * SEGMENT);
            assert_eq!(resize(p, 4), p);
            c::free(p);
            assert_eq!((block(1), cached_bytes()), (p, 3 * SEGMENT));
            p.write_bytes(2, SEGMENT - BEHIND);
            assert_eq!((resize(p, 3), cached_bytes()), (p, SEGMENT));
            assert_eq!(held::bytes(), held + 4 * SEGMENT);
            assert_eq!((resize(p, 6), cached_bytes()), (p, 0));
            assert_eq!(held::bytes(), held + 6 * SEGMENT);
            assert!((0..SEGMENT - BEHIND).all(|i| p.add(i).read() == 2));
            p.write_bytes(3, 6 * SEGMENT - BEHIND);
            c::free(p);
            c::trim();
            assert_eq!((held::bytes(), cached_bytes()), (held, 0));
        }
    });
}
