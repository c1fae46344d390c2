//! Huge blocks that heaps keep themselves.

extern crate std;

use super::*;
use crate::large::huge::kept::ALLOWED;
use crate::policy;
use crate::testing::{in_child, keep_nothing_back};

/// Runs `f` in a thread of a program that has many heaps.
fn among_many(f: impl FnOnce() + Send) {
    in_child(|| {
        keep_nothing_back();
        // SAFETY: the block is freed once.
        let begin = || unsafe { c::free(c::malloc(1)) };
        let all_have_one = std::sync::Barrier::new(10);
        std::thread::scope(|scope| {
            for _ in 0..9 {
                scope.spawn(|| {
                    begin();
                    all_have_one.wait();
                });
            }
            all_have_one.wait();
            scope.spawn(|| {
                begin();
                f();
            });
        });
    });
}

fn own() -> &'static Kept {
    crate::api::front::kept_huge().expect("there are many heaps")
}

#[test]
fn one_of_many_heaps_keeps_what_its_thread_freed() {
    among_many(|| {
        let figures =
            || (cached_bytes(), ALLOWED.load(Relaxed), own().kept.load(Relaxed), usage::huge());
        let bytes = |segments: usize| segments * SEGMENT;
        policy::HUGE_CACHE_MIB.set(64);
        let before = counts();
        let (p, q) = (block(2), block(3));
        assert_eq!(figures(), (0, 0, 0, bytes(5) as u64));
        // SAFETY: the blocks come from `malloc`, and each is freed once.
        unsafe {
            c::free(p);
            assert_eq!(figures(), (bytes(2), bytes(2), bytes(2) as i64, bytes(5) as u64));
            assert_eq!(block(2), p, "it has the length");
            assert_eq!(figures(), (bytes(2), bytes(2), 0, bytes(5) as u64), "for the next one");
            c::free(p);
            let longer = block(4);
            assert_ne!(longer, p);
            assert_eq!((in_ring(), own().hits.get(), own().puts.get()), (0, 1, 2));
            c::free(q);
            c::free(longer);
            assert_eq!(figures().0, bytes(9));
            // Longer than what a heap keeps.
            let longest = block(9);
            c::free(longest);
        }
        assert_eq!(counts().1 - before.1, 1, "the others are the heap's to count");
        assert_eq!((in_ring(), figures().0), (9, bytes(18)));
    });
}

#[test]
fn what_heaps_keep_goes_back_after_the_decay_and_at_the_end() {
    among_many(|| {
        let blocks = [1, 2, 1, 2].map(block);
        // SAFETY: the blocks come from `malloc`, and each is freed once.
        unsafe { blocks.into_iter().for_each(|p| c::free(p)) };
        assert_eq!(own().kept.load(Relaxed), 6 * SEGMENT as i64);
        assert_eq!(own().purge(os::now_ms(), 86_400_000), 0, "they are young");
        let held = block(1);
        assert_eq!(own().purge(os::now_ms(), 0), 5 * SEGMENT);
        assert_eq!(
            (cached_bytes(), ALLOWED.load(Relaxed), usage::huge() as usize),
            (0, 0, SEGMENT)
        );
        // SAFETY: `held` comes from `malloc`, and is freed once.
        unsafe { c::free(held) };
        own().empty();
        assert_eq!(
            (cached_bytes(), in_ring(), usage::huge()),
            (SEGMENT, 1, 0),
            "others may have it"
        );
        assert_eq!(own().allowed.load(Relaxed), 0);
    });
}

#[test]
fn heaps_keep_no_more_than_the_cache_may_hold() {
    among_many(|| {
        policy::HUGE_CACHE_MIB.set(4);
        policy::HUGE_CACHE_PERCENT.set(0);
        let blocks = [1, 1, 1, 1, 1, 1].map(block);
        // SAFETY: the blocks come from `malloc`, and each is freed once.
        unsafe { blocks.into_iter().for_each(|p| c::free(p)) };
        assert_eq!((cached_bytes(), own().kept.load(Relaxed)), (2 * SEGMENT, 2 * SEGMENT as i64));
    });
}

#[test]
fn blocks_of_several_lengths_stay() {
    among_many(|| {
        // SAFETY: the blocks come from `malloc`, and each is freed once.
        let free = |p| unsafe { c::free(p) };
        let (one, twos) = (block(1), [2, 2, 2, 2, 2].map(block));
        free(one);
        twos.into_iter().for_each(free);
        assert_eq!(block(1), one, "the fifth block of two took the place of another of two");
        assert_eq!(in_ring(), 4);
    });
}

#[test]
fn a_child_of_a_fork_has_what_heaps_keep() {
    among_many(|| {
        let p = block(2);
        // SAFETY: the block comes from `malloc`, and is freed once.
        unsafe { c::free(p) };
        let figures =
            || (cached_bytes(), ALLOWED.load(Relaxed), own().kept.load(Relaxed), own().hits.get());
        in_child(|| {
            assert_eq!(figures(), (2 * SEGMENT, 2 * SEGMENT, 2 * SEGMENT as i64, 0));
            assert_eq!(block(2), p);
            assert_eq!(figures(), (2 * SEGMENT, 2 * SEGMENT, 0, 1));
        });
    });
}

/// Another thread gave the heap's part of the bound up while its holder put a block there.
#[test]
fn a_block_beyond_the_heaps_part_of_the_bound_goes_back_too() {
    for by_purge in [true, false] {
        among_many(|| {
            let p = block(2);
            // SAFETY: the block comes from `malloc`, and is freed once.
            unsafe { c::free(p) };
            own().change_allowed(-2 * SEGMENT as i64);
            CACHED.fetch_sub(2 * SEGMENT, Relaxed);
            if by_purge {
                assert_eq!(own().purge(os::now_ms(), 0), 2 * SEGMENT);
            } else {
                own().empty();
                assert_eq!(in_ring(), 2);
            }
            assert_eq!((own().kept.load(Relaxed), usage::huge()), (0, 0));
        });
    }
}

/// The thread of a heap was between a change of a place and its count, at a fork.
#[test]
fn a_child_of_a_fork_counts_anew_what_other_heaps_keep() {
    in_child(|| {
        // SAFETY: all zero bytes are a heap that keeps nothing.
        let kept: Kept = unsafe { core::mem::zeroed() };
        kept.kept.store(6 * SEGMENT as i64, Relaxed);
        kept.allowed.store(8 * SEGMENT as i64, Relaxed);
        kept.recount();
        assert_eq!((kept.kept.load(Relaxed), kept.allowed.load(Relaxed)), (0, 0));
    });
}

/// The holder of a heap and a purge give the same part of the bound up at once.
#[test]
fn a_part_of_the_bound_that_two_give_up_is_taken_again() {
    in_child(|| {
        keep_nothing_back();
        forget_part(0);
        policy::HUGE_CACHE_MIB.set(64);
        // SAFETY: all zero bytes are a heap that keeps nothing.
        let kept: Kept = unsafe { core::mem::zeroed() };
        let part = 4 * SEGMENT as i64;
        assert!(kept.allow(part));
        for _ in 0..2 {
            kept.change_allowed(-part);
            CACHED.fetch_sub(part as usize, Relaxed);
        }
        assert!(kept.allow(part + SEGMENT as i64));
        assert_eq!((cached_bytes(), kept.allowed.load(Relaxed)), (SEGMENT, SEGMENT as i64));
        assert!(!kept.allow(64 << 20), "the cache is full");
    });
}
