//! Huge pages in huge blocks, and what of a block is resident.

extern crate std;

use super::*;
use crate::backend::{density, held};
use crate::large::huge::clear::mostly_absent;
use crate::large::huge::thp::tried_of;
use crate::policy;
use crate::testing::{Random, in_child};
use std::vec::Vec;

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
    more_blocks_try_once_one_was_filled(9 << 20, c::malloc);
}

/// The last of their segments is nearly empty, also of a block that is filled.
#[test]
fn more_blocks_of_filled_segments_try_huge_pages_once_one_was_filled() {
    more_blocks_try_once_one_was_filled((4 << 20) + (1 << 17), c::malloc);
}

#[test]
fn more_short_blocks_try_huge_pages_once_one_was_filled() {
    more_blocks_try_once_one_was_filled(7 << 18, c::malloc);
}

/// Their second segment is nearly empty, and does not try.
#[test]
fn more_short_blocks_of_a_filled_segment_try_huge_pages_once_one_was_filled() {
    more_blocks_try_once_one_was_filled((2 << 20) + (1 << 17), c::malloc);
}

#[test]
fn more_short_blocks_of_zeroes_try_huge_pages_once_one_was_filled() {
    more_blocks_try_once_one_was_filled(15 << 18, c::zeroed);
}

fn more_blocks_try_once_one_was_filled(n: usize, alloc: unsafe fn(usize) -> *mut u8) {
    in_child(|| {
        os::see_filters();
        first_touch::IS_UNTIMED.store(1, Relaxed);
        let len = segments_for(n);
        // SAFETY: `malloc` and `zeroed` take any size. The blocks are not freed.
        let block = || unsafe { alloc(n) };
        let tries = |p: *mut u8| tried_of(crate::backend::page::lookup(p).unwrap(), len) == len;
        let untried = || (0..40).map(|_| block()).find(|&p| !tries(p)).expect("there is a bound");
        let fill = |p: *mut u8| {
            // SAFETY: the block has as many bytes.
            unsafe { p.write_bytes(1, n) };
        };
        let first = untried();
        if density::of(first.addr(), n).is_none() {
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

/// Blocks of one segment try huge pages while all that try are a small part of what is held, if
/// the program does not fill those that did not get them.
#[test]
fn short_blocks_try_huge_pages_in_a_part_of_what_is_held() {
    in_child(|| {
        const N: usize = 7 << 18;
        // SAFETY: `malloc` takes any size. The blocks are not freed.
        let block = || unsafe { c::malloc(N) };
        let tries = |p: *mut u8| tried_of(crate::backend::page::lookup(p).unwrap(), 1) == 1;
        os::see_filters();
        first_touch::IS_UNTIMED.store(1, Relaxed);
        let mut count = 0;
        for _ in 0..200 {
            let tried = tried::count() + 1;
            let p = block();
            let is_small = tried <= 8 || tried * 4 * SEGMENT <= held::bytes();
            assert_eq!(tries(p), is_small && tried <= 32, "{tried}");
            count += usize::from(tries(p));
        }
        assert!(count > 20, "{count}");
        // One that does not fill its segment never tries them.
        // SAFETY: `malloc` takes any size.
        let partly = unsafe { c::malloc(5 << 18) };
        assert!(!tries(partly));
    });
}

/// Long blocks ask at once. If a program leaves one almost untouched, further ones do so ever more
/// rarely, and its memory goes back at once. Filled ones end that.
#[test]
fn blocks_ask_for_no_huge_pages_where_programs_touch_little_of_them() {
    in_child(|| {
        os::see_filters();
        first_touch::IS_UNTIMED.store(1, Relaxed);
        const N: usize = 40 << 20;
        let asks = |fill: usize| {
            // SAFETY: the block has N bytes, of which at least one is written, and is freed once.
            unsafe {
                let p = c::malloc(N);
                let asks = crate::backend::page::lookup(p).unwrap().segment().is_thp();
                p.write_bytes(1, fill);
                c::free(p);
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
        // Each further block is a fresh one: none stays in the cache.
        policy::HUGE_CACHE_MIB.set(0);
        policy::HUGE_CACHE_PERCENT.set(0);
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
        tried::take(1 << 20); // No block may try them.
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

/// Shorter and longer blocks come in turns: what lies between stays, and what lies behind both goes
/// back.
#[test]
#[cfg_attr(feature = "hardened", ignore = "the test writes behind the request")]
fn what_a_longer_request_had_stays_for_the_next_one() {
    in_child(|| {
        forget_part(0);
        const PIECE: usize = 4096;
        const SHORT: usize = SEGMENT / 2 + 1;
        const LONG: usize = SHORT + SEGMENT / 4;
        // SAFETY: each block is freed once, and has `SEGMENT` bytes, as `malloc_usable_size` says.
        let come_and_go = |n: usize| unsafe {
            let p = c::zeroed(n);
            let mut map = [1u8; SEGMENT / PIECE];
            assert_eq!(libc::mincore(p.cast(), SEGMENT, map.as_mut_ptr()), 0);
            assert_eq!((0..SEGMENT).find(|&i| p.add(i).read() != 0), None, "{n}");
            p.write_bytes(0xFF, SEGMENT);
            c::free(p);
            map.iter().take_while(|&&page| page & 1 == 1).count() * PIECE
        };
        // Of these, only the first one is fresh.
        let resident = [LONG, SHORT, LONG, SHORT, LONG, SHORT].map(come_and_go);
        let is_about = |n: usize, asked: usize| (asked..asked + (128 << 10)).contains(&n);
        assert!(is_about(resident[1], SHORT), "{resident:?}: nobody asked calloc for more");
        assert!(resident[2..].iter().all(|&n| is_about(n, LONG)), "{resident:?}");
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

#[test]
fn blocks_seldom_ask_where_huge_pages_are_dear() {
    in_child(|| {
        const N: usize = (32 << 20) - 4096; // The hardened build adds some bytes.
        // SAFETY: `malloc` takes any size. The blocks are not freed.
        let block = || unsafe { crate::backend::page::lookup(c::malloc(N)).unwrap() };
        let told = |huge: &Meta| huge.segment().thp.load(Relaxed);
        assert_eq!(told(block()), THP, "a request fills such a block");
        first_touch::note(1500, 1, false);
        (0..8).for_each(|_| first_touch::note(4_500_000, 1, true));
        let probe = block();
        assert_eq!(told(probe), TRIED, "one segment shows what a huge page costs now");
        assert!((0..15).all(|_| told(block()) == UNTOLD));
        assert_eq!(told(block()), TRIED);
    });
}
