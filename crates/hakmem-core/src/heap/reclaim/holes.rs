//! Holes: pieces of a page in use that no used block reaches into, and whose memory went back to
//! the system. A piece is a sixteenth of the page, or one system page if that is larger.
//!
//! ```text
//! page of one slot    ├4K┤├4K┤├4K┤ …     16 pieces of 4 KiB (32 KiB in a page of eight slots)
//! blocks             ├──┤├──┤├──┤├──┤    a used block: its pieces stay
//!                                        a free block: in a hole if one of its pieces is a hole
//! ```
//!
//! No piece is smaller than a system page: else a purge of the hole would also purge its
//! neighbours.
//!
//! Rules
//! 1. Only the owner of the page's first line (`page` rule 1) purges and fills holes.
//! 2. A block that reaches into a hole is *in a hole*: it is carved, not used, and on no list. The
//!    purge of the hole destroyed its link.
//! 3. A hole ends below the carved part of the page. Beyond that part, the heap carves blocks
//!    without a check for holes.

use crate::backend::check;
use crate::backend::page::{Block, Meta};
use crate::os;
use crate::proto::inbox::Link;
use core::ptr::null_mut;

/// The largest number of pieces of a page: bits of [`Meta::holes`].
const PIECES: usize = 16;
/// The largest number of blocks of a page.
const MOST: usize = 64 << 10 >> 3;

/// The bytes of a piece, at least a system page.
fn piece_of(page: &Meta) -> usize {
    (page.bytes() / PIECES).max(os::page_size())
}

/// The pieces that block `i` reaches into, as bits.
fn pieces_of(page: &Meta, piece: usize, i: usize) -> u16 {
    let size = page.block_size.get() as usize;
    let (first, last) = (i * size / piece, ((i + 1) * size - 1) / piece);
    ((2u32 << last) - (1u32 << first)) as u16
}

/// Purges the pieces of the page that no used block reaches into. Returns their bytes. O(blocks).
///
/// # Safety
/// The calling thread is the owner of the page: the holder of its heap, or of the lock of parked
/// pages. It is the owner during the call.
pub unsafe fn purge_holes(page: &Meta) -> usize {
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
        // SAFETY: the block is on the list of the page, which the caller owns (rule 1). The check
        // above found it in the carved part.
        block = unsafe { Block::next(block) };
    }
    let old = page.holes.get();
    let mut kept = old;
    for i in (0..carved).filter(|i| free[i / 64] & 1 << (i % 64) == 0) {
        let pieces = pieces_of(page, piece, i);
        if pieces & old == 0 {
            kept |= pieces; // Block `i` is neither listed nor in a hole: it is used.
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
        // SAFETY: the block is on the list of the page, which the caller owns (rule 1). The first
        // loop has checked it.
        let next = unsafe { Block::next(block) };
        if pieces_of(page, piece, number(block)) & new == 0 {
            // SAFETY: the block is free and the caller's. The new list gets it, and the old list is
            // not used any more.
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
        // Even if the system refuses, the piece counts as a hole.
        if os::purge(page.start().addr() + first * piece, n * piece) {
            given += n * piece;
        }
    }
    given
}

/// Fills the first holes of the page until at least one block is in no hole any more, and links
/// such blocks in the order of their addresses. Returns the first block and their number. None:
/// there is no hole. O(blocks of the pieces).
///
/// # Safety
/// The calling thread is the owner of the page: the holder of its heap, or of the lock of parked
/// pages. It is the owner during the call.
pub unsafe fn fill(page: &Meta) -> Option<(*mut Block, u32)> {
    let (piece, size) = (piece_of(page), page.block_size.get() as usize);
    while page.holes.get() != 0 {
        let first = page.holes.get().trailing_zeros() as usize;
        let holes = page.holes.get() & !(1 << first);
        page.holes.set(holes);
        let (mut list, mut count) = (null_mut(), 0);
        for i in (first * piece / size..=((first + 1) * piece - 1) / size).rev() {
            if pieces_of(page, piece, i) & holes == 0 {
                let block = page.start().wrapping_add(i * size).cast::<Block>();
                // SAFETY: the block was in a hole (rule 2), so it is on no list. It reaches into no
                // hole any more, and the caller owns the page (rule 1).
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
