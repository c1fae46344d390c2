//! Double frees.

use super::blocks::{
    SLOT, free, free_elsewhere, free_odd, free_odd_elsewhere, go_on, go_on_odd, shared, take,
    take_odd,
};
use super::{CORRUPT, NOTHING};
use crate::oracle;
use hakmem_core::c;

const TWICE: &str = "double free of {p}, a block of 64 bytes";

fn twice(n: usize) {
    let p = take(n);
    free(p);
    free(p);
}

/// The block is neither its page's only one nor, as it is freed, the only one at hand.
fn medium_twice() {
    let p = take(12_000);
    while take(12_000).addr() / (8 * SLOT) == p.addr() / (8 * SLOT) {}
    c::trim();
    free(p);
    free(p);
}

/// A list of blocks of 12,000 bytes keeps one at first. The others go to their page. The second
/// free of such a block puts it onto the list, which has room again, and cuts the list of the page.
fn medium_twice_past_a_full_list() {
    let blocks = [(); 4].map(|()| take(12_000));
    c::trim();
    blocks.iter().for_each(|&p| free(p));
    assert_eq!(take(12_000), blocks[0]);
    free(blocks[3]);
    (0..50).for_each(|_| _ = take(12_000));
}

/// The second free finds the list of 21 blocks full. Of it a run of one page goes to that page, and
/// the block would be there twice.
fn medium_twice_as_the_list_fills() {
    for _ in 0..8 {
        let blocks = [(); 100].map(|()| take(12_000));
        c::trim();
        blocks.iter().for_each(|&p| free(p));
    }
    let blocks = [(); 100].map(|()| take(12_000));
    c::trim();
    let [p, q] = [blocks[0], blocks[1]];
    blocks[2..21]
        .iter()
        .chain([&p, &q, &p])
        .for_each(|&p| free(p));
}

/// The block is of a page of another thread. This thread keeps one block of such a size.
fn larger_of_another_twice(is_full: bool) {
    free(take(64));
    if is_full {
        free(take(12_000));
    }
    let p = oracle::elsewhere(|| take(12_000).expose_provenance());
    let p = std::ptr::with_exposed_provenance_mut(p);
    free(p);
    free(p);
}

fn small_twice(between: usize) {
    let [_, p, others @ ..] = [(); 6].map(|()| take(64));
    free(p);
    others[..between].iter().for_each(|&q| free(q));
    free(p);
    // Without another in between it is seen by now.
    if between > 0 {
        go_on(64);
    }
}

/// By another thread, which frees others before and in between.
fn of_another_twice_at_the_end() {
    let [p, q, r] = [(); 3].map(|()| take(64));
    free_elsewhere(&[p, q, r, r]);
}

fn of_another_twice(at_once: bool) {
    // As many as not to be seen where a list begins.
    let blocks = [(); 5].map(|()| take(64));
    if at_once {
        return free_elsewhere(&[blocks[0]; 2]);
    }
    c::trim();
    // Not the one that was freed first again, which is on top of what travels.
    free_elsewhere(&[&blocks[..], &blocks[1..]].concat());
    go_on(64);
}

/// Of pages that few blocks are out of, and that are nobody's until they are wanted again.
fn of_a_parked_page_twice() {
    let mut pages = std::collections::BTreeMap::<usize, Vec<*mut u8>>::new();
    for p in (0..9 * SLOT / 64).map(|_| take(64)) {
        pages.entry(p.addr() / SLOT).or_default().push(p);
    }
    pages.pop_last(); // The current one.
    for blocks in pages.values() {
        blocks[5..].iter().for_each(|&p| free(p));
    }
    c::trim();
    let first = pages.pop_first().unwrap().1;
    free_elsewhere(&[&first[..5], &first[1..5]].concat());
    c::trim();
}

fn eight_bytes_by_two_others(between: bool) {
    let [p, q] = [(); 2].map(|()| take_odd(1));
    let freed: &[_] = if between { &[p, q, p] } else { &[p, p] };
    free_odd_elsewhere(freed, 1);
    go_on_odd(1);
}

/// What the other thread writes into the block, for it to travel, is taken for a link when the
/// block is handed out.
fn eight_bytes_by_its_owner_and_another() {
    let blocks = [(); 9].map(|()| take_odd(1));
    blocks.iter().for_each(|&p| free_odd(p, 1));
    let taken = std::iter::repeat_with(|| take_odd(1)).find(|p| blocks.contains(p));
    // The others are in the list that it came from, blocks[0] as the last.
    assert_eq!(taken, Some(blocks[8]));
    free_odd_elsewhere(&[blocks[3]], 1);
    go_on_odd(1);
}

pub const NAMED: [(&str, fn(), &str); 18] = [
    (
        "a medium block twice, first past a full list",
        medium_twice_past_a_full_list,
        CORRUPT,
    ),
    (
        "another's block twice, after others",
        of_another_twice_at_the_end,
        TWICE,
    ),
    (
        "a medium block twice in a row, after others",
        || {
            let blocks = [(); 4].map(|()| take(12_000));
            blocks.iter().for_each(|&p| free(p));
            free(blocks[3]);
        },
        "double free of {p}, a block of 12288 bytes",
    ),
    ("a large block twice", || twice(3 * SLOT), NOTHING),
    ("a huge block twice", || twice(40 * SLOT), NOTHING),
    (
        "the only block twice",
        || {
            let p = take(64);
            c::trim();
            free(p);
            free(p);
        },
        TWICE,
    ),
    ("twice at once", || small_twice(0), TWICE),
    (
        "a shared block twice",
        || shared(|p| [(); 2].map(|()| free(p)).into_iter().collect()),
        TWICE,
    ),
    ("twice with one between", || small_twice(1), TWICE),
    (
        "a medium block twice",
        medium_twice,
        "double free of {p}, a block of 12288 bytes",
    ),
    (
        "a medium block twice, as the list fills",
        medium_twice_as_the_list_fills,
        "double free of {p}, a block of 12288 bytes",
    ),
    (
        "another's medium block twice",
        || larger_of_another_twice(false),
        "double free of {p}, a block of 12288 bytes",
    ),
    (
        "another's medium block twice, on a full list",
        || larger_of_another_twice(true),
        "double free of {p}, a block of 12288 bytes",
    ),
    ("another's block twice", || of_another_twice(true), TWICE),
    (
        "more frees by another than blocks",
        || of_another_twice(false),
        TWICE,
    ),
    (
        "more frees by another than blocks of a parked page",
        of_a_parked_page_twice,
        TWICE,
    ),
    (
        "eight bytes twice by another",
        || eight_bytes_by_two_others(false),
        "double free of {p}, a block of 8 bytes",
    ),
    (
        "eight bytes twice by another with one between",
        || eight_bytes_by_two_others(true),
        CORRUPT,
    ),
];

pub const LATER: [(&str, fn()); 2] = [
    ("twice with two between", || small_twice(2)),
    ("twice with four between", || small_twice(4)),
];

/// What is done wrong and not always seen: the process ends by SIGABRT with one line, or goes on.
pub const CONFINED: [(&str, fn()); 1] = [(
    "eight bytes by its owner and another",
    eight_bytes_by_its_owner_and_another,
)];
