//! Pointers that are no block's start: inside a block, never handed out, or where nothing is.

use super::blocks::{
    SLOT, free, free_elsewhere, free_odd, free_odd_elsewhere, go_on, go_on_odd, shared, take,
    take_odd,
};
use super::{INSIDE_PAGE, NOTHING};
use hakmem_core::c;

const INSIDE_WHOLE: &str = "invalid pointer {p}: inside the allocation that starts at {p}";
const INSIDE_MEDIUM: &str =
    "invalid pointer {p}: inside a page of 12288-byte blocks, not at the start of a live one";

fn usable(p: *mut u8) {
    // SAFETY: none: that is what is tried.
    unsafe { c::usable_size(p) };
}

/// The last block of a page of which few were handed out.
fn never_handed_out() -> *mut u8 {
    take(64).map_addr(|a| a & !(SLOT - 1) | (SLOT - 64))
}

/// The block behind lies in its owner's list, and a batch's second word would lie in its first.
fn inner_pointer_of_24_bytes_by_another() {
    let blocks = [(); 9].map(|()| take_odd(3));
    let inner = |p: &*mut u8| p.addr().is_multiple_of(16);
    let at = blocks[1..7].iter().position(inner).expect("every other") + 1;
    free_odd(blocks[at + 1], 3);
    free_odd_elsewhere(&[blocks[at].wrapping_add(16)], 3);
    go_on_odd(3);
}

pub const NAMED: [(&str, fn(), &str); 17] = [
    (
        "16 bytes into a block of another thread's",
        || free_elsewhere(&[take(64).wrapping_add(16)]),
        INSIDE_PAGE,
    ),
    (
        "16 bytes into one that is not the first to travel",
        || free_elsewhere(&[take(64), take(64).wrapping_add(16)]),
        INSIDE_PAGE,
    ),
    (
        "16 bytes into a medium block",
        || free(take(12_000).wrapping_add(16)),
        INSIDE_MEDIUM,
    ),
    (
        "a medium block in its second slot",
        || free([(); 6].map(|()| take(12_000))[5].map_addr(|a| a & !(SLOT - 1) | 16)),
        INSIDE_MEDIUM,
    ),
    (
        "of another thread's, never handed out",
        || {
            free_elsewhere(&[never_handed_out()]);
            go_on(64);
        },
        "invalid pointer {p}: that block was never handed out",
    ),
    (
        "inside a block",
        || free(take(64).wrapping_add(8)),
        INSIDE_PAGE,
    ),
    (
        "inside a medium block",
        || free(take(12_000).wrapping_add(8)),
        INSIDE_MEDIUM,
    ),
    (
        "inside a large block",
        || free(take(3 * SLOT).wrapping_add(16)),
        INSIDE_WHOLE,
    ),
    (
        "a later slot of a large block",
        || free(take(3 * SLOT).wrapping_add(SLOT)),
        INSIDE_WHOLE,
    ),
    (
        "inside a huge block",
        || free(take(40 * SLOT).wrapping_add(4096)),
        INSIDE_WHOLE,
    ),
    (
        "a later segment of a huge block",
        || free(take(70 * SLOT).wrapping_add(32 * SLOT)),
        INSIDE_WHOLE,
    ),
    (
        "the size inside a large block",
        || usable(take(3 * SLOT).wrapping_add(16)),
        INSIDE_WHOLE,
    ),
    (
        "the size inside a huge block",
        || usable(take(40 * SLOT).wrapping_add(16)),
        INSIDE_WHOLE,
    ),
    (
        "the size of a huge block's later slot",
        || usable(take(40 * SLOT).wrapping_add(SLOT)),
        INSIDE_WHOLE,
    ),
    (
        "never handed out",
        || free(take(64).wrapping_add(1 << 30)),
        NOTHING,
    ),
    (
        "inside a shared block",
        || shared(|p| free(p.wrapping_add(16))),
        INSIDE_PAGE,
    ),
    (
        "inside 24 bytes by another",
        inner_pointer_of_24_bytes_by_another,
        "invalid pointer {p}: inside a page of 24-byte blocks, not at the start of a live one",
    ),
];

pub const LATER: [(&str, fn()); 2] = [
    ("16 bytes into a block", || {
        free(take(64).wrapping_add(16));
        (0..15).for_each(|_| go_on(64));
    }),
    ("never handed out, by its own thread", || {
        free(never_handed_out());
        (0..15).for_each(|_| go_on(64));
    }),
];
