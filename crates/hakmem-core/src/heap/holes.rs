//! Holes: pieces of a page, sixteenths at least, that no live block reaches into, given back to the system while the page is in use.
//!
//! ```text
//! page of one slot    ├4K┤├4K┤├4K┤ …      16 pieces of 4 KiB (of 32 KiB in a page of eight slots); none is smaller than
//!                                         the system's pages, or what is beside a hole would go with it
//! blocks             ├──┤├──┤├──┤├──┤     live: its pieces stay · free: in a hole if one of its pieces is a hole
//! ```
//!
//! Rules
//! 1. Who owns the page's first line (`page` rule 1) purges and fills holes.
//! 2. A block that reaches into a hole is *in a hole*: carved, not out, and on no list. Its links went with the hole.
//! 3. A hole ends below what is carved: beyond, blocks are made without asking.

use crate::backend::check;
use crate::backend::page::{Block, Meta};
use crate::os;
use crate::proto::inbox::Link;
use core::ptr::null_mut;

/// Pieces of a page, at most: bits of [`Meta::holes`].
const PIECES: usize = 16;
/// The most blocks that a page has.
const MOST: usize = 64 << 10 >> 3;

/// Bytes of a piece: the system gives nothing back by less than its pages.
fn piece_of(page: &Meta) -> usize {
    (page.bytes() / PIECES).max(os::page_size())
}

/// The pieces that block `i` reaches into.
fn pieces_of(page: &Meta, piece: usize, i: usize) -> u16 {
    let size = page.block_size.get() as usize;
    let (first, last) = (i * size / piece, ((i + 1) * size - 1) / piece);
    ((2u32 << last) - (1u32 << first)) as u16
}

/// Gives back what no live block of the page reaches into. Returns the bytes. O(blocks).
pub fn purge_holes(page: &Meta) -> usize {
    let carved = page.carved.get() as usize;
    let (start, size, piece) = (page.start(), page.block_size.get() as usize, piece_of(page));
    let number = |block: *mut Block| block.addr().wrapping_sub(start.addr()) / size;

    let mut free = [0u64; MOST / 64];
    let mut block = page.free.get();
    while !block.is_null() {
        let i = number(block);
        if i >= carved || free[i / 64] & 1 << (i % 64) != 0 {
            check::corrupt(block.cast());
        }
        free[i / 64] |= 1 << (i % 64);
        // SAFETY: a block of the page's own list (rule 1).
        block = unsafe { Block::next(block) };
    }
    let old = page.holes.get();
    let mut kept = old;
    for i in (0..carved).filter(|i| free[i / 64] & 1 << (i % 64) == 0) {
        let pieces = pieces_of(page, piece, i);
        if pieces & old == 0 {
            kept |= pieces; // It is live.
        }
    }
    let whole = carved * size / piece; // Rule 3.
    let new = !kept & ((1u32 << whole) - 1) as u16;
    if new == 0 {
        return 0;
    }

    let (mut list, mut in_holes) = (null_mut(), page.in_holes.get());
    let mut block = page.free.get();
    while !block.is_null() {
        // SAFETY: as above.
        let next = unsafe { Block::next(block) };
        if pieces_of(page, piece, number(block)) & new == 0 {
            // SAFETY: as above; it is on the new list alone.
            unsafe { Block::set_next(block, list) };
            list = block;
        } else {
            in_holes += 1;
        }
        block = next;
    }
    page.free.set(list);
    page.in_holes.set(in_holes);
    page.holes.set(old | new);
    give_back(page, piece, new)
}

fn give_back(page: &Meta, piece: usize, holes: u16) -> usize {
    let (mut rest, mut given) = (u32::from(holes), 0);
    while rest != 0 {
        let first = rest.trailing_zeros() as usize;
        let n = (rest >> first).trailing_ones() as usize;
        rest &= !(((1 << n) - 1) << first);
        // If the system does not take it, the hole is one for us all the same.
        if os::purge(page.start().addr() + first * piece, n * piece) {
            given += n * piece;
        }
    }
    given
}

/// Fills the first holes until blocks come of it, and links these in the order of their addresses: the first of them,
/// and their number. None: there was no hole. O(blocks of the pieces).
pub fn fill(page: &Meta) -> Option<(*mut Block, u32)> {
    let (piece, size) = (piece_of(page), page.block_size.get() as usize);
    while page.holes.get() != 0 {
        let first = page.holes.get().trailing_zeros() as usize;
        let holes = page.holes.get() & !(1 << first);
        page.holes.set(holes);
        let (mut list, mut count) = (null_mut(), 0);
        for i in (first * piece / size..=((first + 1) * piece - 1) / size).rev() {
            if pieces_of(page, piece, i) & holes == 0 {
                let block = page.start().wrapping_add(i * size).cast::<Block>();
                // SAFETY: it was in a hole (rule 2), and reaches into no hole any more.
                unsafe { Block::set_next(block, list) };
                list = block;
                count += 1;
            }
        }
        page.in_holes.set(page.in_holes.get() - count as u16);
        if count > 0 {
            return Some((list, count));
        }
    }
    None
}
