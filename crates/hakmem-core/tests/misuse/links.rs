//! Links that the program overwrites in free blocks: on lists, on their way to an owner, in parked
//! pages.

use super::blocks::{
    SLOT, free, free_elsewhere, free_odd_elsewhere, go_on, go_on_odd, take, take_odd,
};
use super::{CORRUPT, HARDENED};
use hakmem_core::c;

/// Bytes of each block for its tag.
const BEHIND: usize = if HARDENED { 8 } else { 0 };

/// Pages of blocks of 64 bytes become empty, each with a wrong link in one of them: as many as it
/// takes for one to be walked to its end. `link` makes it of the blocks that were freed before the
/// last.
fn overwritten_after_free(link: fn(&[*mut u8]) -> usize) {
    let mut pages = std::collections::BTreeMap::<usize, Vec<*mut u8>>::new();
    for p in (0..260 * SLOT / 64).map(|_| take(64 - BEHIND)) {
        pages.entry(p.addr() / SLOT).or_default().push(p);
    }
    for blocks in pages.values().filter(|blocks| blocks.len() == SLOT / 64) {
        let (last, others) = blocks.split_last().unwrap();
        others.iter().for_each(|&p| free(p));
        // SAFETY: none: that is what is tried.
        unsafe { others[others.len() / 2].cast::<usize>().write(link(others)) };
        free(*last);
    }
}

/// Two blocks of 256 bytes in each of eight pages stay, so that the pages are looked through to
/// give the rest back; then one of the free ones has a wrong link. It gets the pages' first free
/// blocks and where they end.
fn overwritten_in_a_parked_page(link: fn(*mut u8, usize) -> usize) {
    let mut pages = std::collections::BTreeMap::<usize, Vec<*mut u8>>::new();
    for p in (0..9 * SLOT / 256).map(|_| take(256)) {
        pages.entry(p.addr() / SLOT).or_default().push(p);
    }
    for (page, blocks) in pages.into_iter().take(8) {
        blocks[2..].iter().for_each(|&p| free(p));
        let first = *blocks.last().unwrap();
        let wrong = link(first, (page + 1) * SLOT);
        // SAFETY: none: that is what is tried.
        unsafe { blocks[blocks.len() - 20].cast::<usize>().write(wrong) };
    }
    c::trim();
}

/// While guards cut lists before a sample, a block on one of them has a link that is no address.
fn overwritten_in_a_list_that_is_cut() {
    hakmem_core::options::set("GUARD_SAMPLE", "20").unwrap();
    for round in 0..50 {
        let blocks = [(); 20].map(|()| take(64));
        blocks.iter().for_each(|&p| free(p));
        if round == 10 {
            // Not a sample, which has a place of its own.
            let mut pairs = blocks[5..].windows(2);
            let pair = pairs.find(|pair| pair[0].addr() / SLOT == pair[1].addr() / SLOT);
            // SAFETY: none: that is what is tried.
            unsafe { pair.unwrap()[0].cast::<usize>().write(3) };
        }
    }
    (0..400).for_each(|_| _ = take(64));
}

/// Of three that are on their way to their owner, the one in the middle leads elsewhere.
fn eight_bytes_overwritten_on_their_way(link: fn(*mut u8) -> usize) {
    let blocks = [(); 3].map(|()| take_odd(1));
    free_odd_elsewhere(&blocks, 1);
    // SAFETY: none: that is what is tried.
    unsafe { blocks[1].cast::<usize>().write(link(blocks[1])) };
    go_on_odd(1);
}

/// A block that another thread freed is on its way to its owner, and says what comes behind it.
fn overwritten_on_its_way(link: fn(*mut u8) -> usize) {
    let p = take(64);
    free_elsewhere(&[p]);
    // SAFETY: none: that is what is tried. One block, and the link.
    unsafe { p.cast::<usize>().add(1).write(1 << 48 | link(p)) };
    go_on(64);
}

/// Of five free blocks of a program heap, the one in the middle leads into a live block, whose
/// words are links.
fn overwritten_in_a_program_heap() {
    let heap = hakmem_core::Heap::new();
    let layout = std::alloc::Layout::from_size_align(48, 16).unwrap();
    let allocate = |layout| heap.allocate(layout).unwrap().as_ptr().cast::<u8>();
    let live = allocate(std::alloc::Layout::from_size_align(3000, 16).unwrap());
    let blocks = [(); 5].map(|()| allocate(layout));
    for p in blocks {
        // SAFETY: the heap gave the block for this layout, and nobody uses it any more.
        unsafe { heap.deallocate(std::ptr::NonNull::new(p).unwrap(), layout) };
    }
    let inside = live.expose_provenance() + 64;
    // SAFETY: the live block has these words. The free one: that is what is tried.
    unsafe {
        (0..300).for_each(|i| live.cast::<usize>().add(i).write(inside));
        blocks[2].cast::<usize>().write(inside);
    }
    (0..8).for_each(|_| _ = allocate(layout));
}

pub const NAMED: [(&str, fn(), &str); 12] = [
    (
        "a free block of a program heap leads into another block",
        overwritten_in_a_program_heap,
        CORRUPT,
    ),
    (
        "in a list that is cut for a sample",
        overwritten_in_a_list_that_is_cut,
        CORRUPT,
    ),
    (
        "eight bytes on their way lead out of the page",
        || eight_bytes_overwritten_on_their_way(|p| p.expose_provenance() + 16 * SLOT),
        CORRUPT,
    ),
    (
        "eight bytes on their way lead into a block",
        || eight_bytes_overwritten_on_their_way(|p| p.expose_provenance() + 4),
        CORRUPT,
    ),
    (
        "written after it was freed",
        || overwritten_after_free(|_| 64),
        CORRUPT,
    ),
    (
        "a free block of a parked page leads to the first",
        || overwritten_in_a_parked_page(|first, _| first.expose_provenance()),
        CORRUPT,
    ),
    (
        "a free block of a parked page leads out of it",
        || overwritten_in_a_parked_page(|_, end| end),
        CORRUPT,
    ),
    (
        "cut off after it was freed",
        || overwritten_after_free(|_| 0),
        CORRUPT,
    ),
    (
        "led back after it was freed",
        || overwritten_after_free(|freed| freed.last().unwrap().expose_provenance()),
        CORRUPT,
    ),
    (
        "on its way, before what is no page",
        || overwritten_on_its_way(|_| 0x4141_4141_4141),
        CORRUPT,
    ),
    (
        "on its way, before what lies at an odd address",
        || overwritten_on_its_way(|p| p.expose_provenance() + 1),
        CORRUPT,
    ),
    (
        "on its way, before what lies outside",
        || overwritten_on_its_way(|_| 0x4141_4141_4140),
        CORRUPT,
    ),
];
