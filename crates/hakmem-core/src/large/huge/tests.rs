//! Huge blocks and their cache.

extern crate std;

use super::cache::{RING, oldest, with_part};
use super::clear::mostly_absent;
use super::thp::tried_of;
use super::*;
use crate::api::c;
use crate::backend::density;
use crate::policy;
use crate::testing::{BEHIND, Random, in_child, keep_nothing_back};
use std::vec::Vec;

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

/// Blocks come, grow, shrink and go. The count of what is tried is that of the blocks and of the
/// cache.
#[test]
#[cfg_attr(feature = "hardened", ignore = "freed blocks wait")]
fn what_is_tried_is_counted_once() {
    in_child(|| {
        const MIB: usize = 1 << 20;
        let meta_of = |p: *mut u8| crate::backend::page::lookup(p).unwrap();
        let cached =
            || with_part(0, |entries| entries.iter().flatten().map(|e| e.tried).sum::<usize>());
        let mut random = Random(5);
        let mut blocks = Vec::new();
        // Of what other tests did before.
        let empty_kept = || crate::thread::with_heap(Some).unwrap().huge.empty();
        empty_kept();
        let others = tried::count() - cached();
        let mut most = 0;
        for round in 0..600 {
            // SAFETY: each block comes from `malloc` or `realloc`, and is freed once.
            unsafe {
                match random.below(5) {
                    0 | 1 => blocks.push(c::malloc(2 * MIB + random.below(20 * MIB))),
                    choice if !blocks.is_empty() => {
                        let block = blocks.swap_remove(random.below(blocks.len()));
                        if choice == 2 {
                            blocks.push(c::realloc(block, 2 * MIB + random.below(30 * MIB)));
                        } else {
                            c::free(block);
                        }
                    }
                    _ => {}
                }
            }
            if round % 50 == 0 {
                c::trim();
            }
            // What the heap keeps goes into the cache.
            empty_kept();
            let live: usize =
                blocks.iter().map(|&p| tried_of(meta_of(p), size(meta_of(p)) / SEGMENT)).sum();
            assert_eq!(tried::count(), others + live + cached(), "round {round}");
            most = most.max(live);
        }
        assert!(most > 0, "no block tried them");
    });
}

/// Blocks from calloc begin to try huge pages only while few segments do, others for longer.
#[test]
fn a_zeroed_block_tries_huge_pages_while_few_segments_do() {
    in_child(|| {
        const N: usize = 9 << 20;
        let len = segments_for(N);
        let tries = |p: *mut u8| tried_of(crate::backend::page::lookup(p).unwrap(), len) == len;
        let mut trials = [0; 2];
        for _ in 0..8 {
            let before = tried::count();
            // Blocks that are not freed are no earlier ones from the cache.
            // SAFETY: `zeroed` takes any size.
            let zeroed = unsafe { c::zeroed(N) };
            assert_eq!(tries(zeroed), before + len <= 16, "{before}");
            trials[0] += usize::from(tried::count() > before);
        }
        while tried::count() + len <= 32 {
            // SAFETY: `malloc` takes any size.
            assert!(tries(unsafe { c::malloc(N) }));
            trials[1] += 1;
        }
        assert!(trials[0] > 0 && trials[1] > 0, "{trials:?}");
    });
}

/// Beyond the bound blocks try huge pages as long as programs fill those that did not get them.
#[test]
fn more_blocks_try_huge_pages_once_one_was_filled() {
    in_child(|| {
        os::see_filters();
        const N: usize = 9 << 20;
        let len = segments_for(N);
        // SAFETY: `malloc` takes any size. The blocks are not freed.
        let block = || unsafe { c::malloc(N) };
        let tries = |p: *mut u8| tried_of(crate::backend::page::lookup(p).unwrap(), len) == len;
        let untried = || (0..20).map(|_| block()).find(|&p| !tries(p)).expect("there is a bound");
        let fill = |p: *mut u8| {
            // SAFETY: the block has as many bytes.
            unsafe { p.write_bytes(1, N) };
        };
        let first = untried();
        if density::of(first.addr(), N).is_none() {
            return; // The system does not tell.
        }
        assert!(!tries(block()), "nobody filled the first one");
        // As that was not full, not each block is a witness.
        let filled = || (0..4).map(|_| block()).take_while(|&p| !tries(p)).map(fill).count();
        assert!((1..4).contains(&filled()));
        fill(untried());
        assert!(tries(block()));
        let before = tried::count();
        untried();
        assert!(tried::count() - before <= 32 && !tries(block()));
    });
}

/// Long blocks ask at once. If a program leaves one almost untouched, further ones do so ever more
/// rarely, and its memory goes back at once. Filled ones end that.
#[test]
fn blocks_ask_for_no_huge_pages_where_programs_touch_little_of_them() {
    in_child(|| {
        os::see_filters();
        const N: usize = 40 << 20;
        let asks = |fill: usize| {
            // SAFETY: the block has N bytes, of which at least one is written, and is freed once.
            unsafe {
                let p = c::malloc(N);
                let asks = crate::backend::page::lookup(p).unwrap().segment().is_thp();
                p.write_bytes(1, fill);
                c::free(p);
                forget_part(0); // Each block is a fresh one.
                asks
            }
        };
        // SAFETY: `malloc` takes any size. The block is not freed.
        if density::of(unsafe { c::malloc(N) }.addr(), N).is_none() {
            return; // The system does not tell.
        }
        let before = cached_bytes();
        assert!(asks(1));
        assert_eq!(cached_bytes(), before, "no run of it is used again");
        let sparse = (0..200).filter(|_| asks(1)).count();
        assert!((2..10).contains(&sparse), "{sparse}");
        // A filled one that did not ask tells nothing. The first that asks again does.
        let filled = (0..100).take_while(|_| !asks(N)).count();
        assert!(filled < 64 && (0..20).all(|_| asks(N)), "{filled}");
    });
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "its realloc does not say that a block will be filled")]
fn a_block_that_grows_to_be_filled_gets_huge_pages() {
    in_child(|| {
        const MIB: usize = 1 << 20;
        // SAFETY: `p` comes from `malloc` and has MIB bytes. `grown` replaces it, and is freed
        // once.
        let is_thp = |n: usize| unsafe {
            let p = c::malloc(MIB);
            p.write_bytes(1, MIB);
            let grown = c::realloc(p, n);
            let thp =
                crate::backend::page::lookup(grown).is_some_and(|meta| meta.segment().is_thp());
            c::free(grown);
            forget_part(0);
            thp
        };
        assert!(is_thp(2 * MIB), "all of it is asked for");
        assert!(!is_thp(MIB + MIB / 2), "a quarter would be waste");
        assert!(!is_thp(4 * MIB), "most of it may never be written");
        // A block that is not grown gets none.
        // SAFETY: `malloc` takes any size.
        let fresh = unsafe { c::malloc(2 * MIB) };
        assert!(!crate::backend::page::lookup(fresh).unwrap().segment().is_thp());
    });
}

#[test]
#[cfg_attr(feature = "hardened", ignore = "the test writes behind the request")]
fn what_lies_behind_the_request_is_zero_and_not_resident() {
    in_child(|| {
        forget_part(0);
        const PIECE: usize = 4096;
        let (n, held) = (SEGMENT + 5000, 2 * SEGMENT);
        let asked = 5000usize.next_multiple_of(os::page_size()) / PIECE;
        // SAFETY: `p` comes from `malloc`, and its run has `held` bytes. It is freed, and
        // `zeroed` returns the same block, which is live until it is freed once.
        let map = unsafe {
            let p = c::malloc(n);
            p.write_bytes(0xFF, held);
            c::free(p);
            assert_eq!(c::zeroed(n), p);
            let mut map = [1u8; SEGMENT / PIECE];
            assert_eq!(libc::mincore(p.add(SEGMENT).cast(), SEGMENT, map.as_mut_ptr()), 0);
            assert!(core::slice::from_raw_parts(p, held).iter().all(|&byte| byte == 0));
            c::free(p);
            map
        };
        assert!(map[..asked].iter().all(|&page| page & 1 == 1), "what was asked for");
        assert!(map[asked..].iter().all(|&page| page & 1 == 0));
    });
}

/// True if `mostly_absent` says so of `pages` system pages, of which those that `written` names
/// are written.
fn is_absent(pages: usize, written: impl Fn(usize) -> bool) -> bool {
    let (size, room) = (os::page_size(), 2 * pages * os::page_size());
    let start = os::map_memory(room).unwrap();
    assert!(os::refuse_thp(start, room));
    for page in (0..2 * pages).filter(|&page| written(page)) {
        // SAFETY: the test has just mapped this memory, and nobody else uses it.
        unsafe { os::at(start + page * size).write(1) };
    }
    let absent = mostly_absent(start, pages * size);
    assert!(os::unreserve(start, room));
    absent
}

#[test]
fn what_is_there_is_told_from_a_sample() {
    assert!(is_absent(64, |page| page < 31));
    assert!(!is_absent(64, |page| page < 32), "half of it");
    assert!(is_absent(64, |page| page % 4 == 0), "all of it is looked at");
    assert!(is_absent(100, |page| !(49..100).contains(&page)), "and nothing beyond");
    assert!(!is_absent(100, |page| page < 50));
    // The sample is sixteen pieces, each a quarter of its part.
    assert!(is_absent(4096, |page| page % 256 < 31));
    assert!(!is_absent(4096, |page| page % 256 < 32));
    in_child(|| {
        os::set_filtered(true);
        assert!(!is_absent(64, |_| false), "nobody is asked");
    });
}

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

/// A huge block of `segments`.
fn block(segments: usize) -> *mut u8 {
    // SAFETY: any size may be asked for.
    unsafe { c::malloc(segments * SEGMENT - BEHIND) }
}

fn own() -> &'static Kept {
    crate::api::front::kept_huge().expect("there are many heaps")
}

fn in_ring() -> usize {
    with_part(0, |entries| entries.iter().flatten().map(|e| e.len).sum::<usize>())
}

#[test]
fn one_of_many_heaps_keeps_what_its_thread_freed() {
    among_many(|| {
        let figures = || {
            (cached_bytes(), kept::ALLOWED.load(Relaxed), own().kept.load(Relaxed), usage::huge())
        };
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
            (cached_bytes(), kept::ALLOWED.load(Relaxed), usage::huge() as usize),
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
        let figures = || {
            (
                cached_bytes(),
                kept::ALLOWED.load(Relaxed),
                own().kept.load(Relaxed),
                own().hits.get(),
            )
        };
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
