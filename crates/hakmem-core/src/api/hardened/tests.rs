//! Correct programs notice nothing of the hardened build.

extern crate std;
use crate::api::c;
use crate::policy::{self, Hardened, options};
use crate::testing::in_child;
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
        for (size, to) in [(40, 48), (1000, 1012), (100_000, 130_000), (200_000, 300_000), (3 << 20, 9 << 20)] {
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
