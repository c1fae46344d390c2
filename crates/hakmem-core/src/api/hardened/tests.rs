//! Correct programs notice nothing of the hardened build.

extern crate std;
use crate::api::c;
use crate::policy::{self, Hardened, options};
use crate::testing::{goes_well_in_child, in_child};
use std::vec::Vec;

/// More blocks of 0 bytes than there are places: C++'s containers free such a block with its size.
#[test]
fn each_block_of_no_bytes_is_freed_with_its_size() {
    in_child(|| {
        const MANY: usize = 40_000;
        // SAFETY: each block is freed once, with the size of its request.
        unsafe {
            let all: Vec<_> = (0..MANY).map(|_| c::new(0, 16, false)).collect();
            assert!(all.iter().all(|&p| !p.is_null() && c::usable_size(p) == 0));
            all.into_iter().for_each(|p| c::delete_sized(p, false, 0));
        }
    });
}

/// A block that grows in its place shows neither its pad nor its tag of before.
#[test]
fn a_block_that_grows_shows_nothing_of_its_tag() {
    in_child(|| {
        for (size, to) in
            [(40, 48), (1000, 1012), (100_000, 130_000), (200_000, 300_000), (3 << 20, 9 << 20)]
        {
            // SAFETY: a live block, of `size` bytes first, then of `to`.
            unsafe {
                let p = c::zeroed(size);
                let p = c::realloc(p, to);
                let written = (0..to).find(|&i| p.add(i).read() != 0);
                assert_eq!(written, None, "{size} -> {to}");
                assert_eq!(c::usable_size(p), to);
                c::free(p);
            }
        }
    });
}

/// The same of a block of a program heap.
#[test]
fn a_block_of_a_program_heap_that_grows_shows_nothing_of_its_tag() {
    in_child(|| {
        let heap = c::heaps::new("grows", None);
        for (size, to) in [
            (40, 48),
            (1000, 1012),
            (100_000, 130_000),
            (3 << 20, (3 << 20) + 1000),
            (3 << 20, 9 << 20),
        ] {
            // SAFETY: a live block of the heap, of `size` bytes first, then of `to`.
            unsafe {
                let p = c::heaps::allocate(heap, 16, size, true);
                let p = c::heaps::reallocate(heap, p, to);
                // Behind the first request the block is as zero as fresh memory.
                let words = (size.next_multiple_of(8)..to - 8).step_by(8);
                let tag = words
                    .map(|at| p.add(at).cast::<u64>().read_unaligned())
                    .find(|&word| word != 0);
                assert_eq!(tag, None, "{size} -> {to}");
                c::heaps::free(heap, p);
            }
        }
    });
}

/// The tag has 32 bits for what a block has beyond its request.
#[test]
fn a_block_of_many_gib_shrinks() {
    in_child(|| {
        const GIB: usize = 1 << 30;
        // SAFETY: each block is live until it is reallocated or freed.
        unsafe {
            let p = c::malloc(5 * GIB);
            if p.is_null() {
                return; // The machine has less.
            }
            p.write(7);
            let p = c::realloc(p, GIB / 2);
            assert_eq!((c::usable_size(p), p.read()), (GIB / 2, 7));
            c::free(p);
        }
    });
}

/// What was freed at a lower level is not wiped.
#[test]
fn the_level_does_not_rise() {
    in_child(|| {
        policy::HARDENED.set(Hardened::Low as u32);
        assert!(options::set("HARDENED", "default").is_err());
        // SAFETY: each block is freed once.
        let round = || unsafe {
            let all: Vec<_> = (0..100).map(|_| c::malloc(100)).collect();
            all.iter().for_each(|p| p.write_bytes(1, 100));
            all.into_iter().for_each(|p| c::free(p));
        };
        round();
        let environment = [c"HAKMEM_HARDENED=default".as_ptr(), core::ptr::null()];
        // SAFETY: the array ends with NULL.
        unsafe { c::configure(environment.as_ptr()) };
        round();
    });
}

/// A dangling pointer writes zero where a fresh block has its mark, and something else behind it.
#[test]
fn no_write_after_a_free_makes_a_block_look_fresh() {
    in_child(|| {
        options::set("ON_ERROR", "ignore").expect("an option of this build");
        const SIZE: usize = 3000;
        // SAFETY: each block is freed once. The writes after the free are the error that the test
        // makes; the memory stays accessible.
        unsafe {
            let p = c::malloc(SIZE);
            p.write_bytes(0x5a, SIZE);
            c::free(p);
            p.add(16).cast::<u64>().write(0);
            p.add(100).write(1);
            let again = (0..1000).map(|_| c::zeroed(SIZE)).find(|&block| block == p);
            let block = again.expect("the block comes again");
            assert!((0..SIZE).all(|i| block.add(i).read() == 0));
        }
    });
}

/// The blocks that wait go to their pages when a thread ends, and in a trim. Their first words
/// become links.
#[test]
fn a_write_after_a_free_shows_when_no_block_waits_any_more() {
    for word in [None, Some(0x4141)] {
        // SAFETY: the block is freed once. The write after the free is the error that the test
        // makes; the memory stays accessible.
        let goes_well = goes_well_in_child(|| unsafe {
            let p = c::malloc(40);
            p.write_bytes(1, 40);
            c::free(p);
            if let Some(word) = word {
                p.cast::<usize>().write(word);
            }
            c::trim();
        });
        assert_eq!(goes_well, word.is_none());
    }
}

/// Pages whose blocks are all free leave their queue. A write to such a block shows when the heap
/// has cached the page and uses it again, also for blocks of another size.
#[test]
fn a_write_after_a_free_shows_when_a_cached_page_is_used_again() {
    for (size, next, written) in
        [(3000, 3000, true), (3000, 100, true), (600, 1000, true), (3000, 3000, false)]
    {
        // SAFETY: each block is freed once. The write after the free is the error that the test
        // makes; the memory stays accessible.
        let goes_well = goes_well_in_child(|| unsafe {
            let all: Vec<_> = (0..300).map(|_| c::malloc(size)).collect();
            all.iter().for_each(|p| p.write_bytes(1, size));
            all.iter().for_each(|&p| c::free(p));
            if written {
                all.iter().for_each(|p| p.add(40).write(1));
            }
            (0..300).for_each(|_| {
                let _ = c::malloc(next);
            });
        });
        assert_eq!(goes_well, !written, "{size} {next}");
    }
}
