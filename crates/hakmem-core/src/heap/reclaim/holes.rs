//! Holes: pieces of a page in use that no used block reaches into, and whose memory went back to
//! the system. A piece is a sixteenth of a slot, or one system page if that is larger.
//!
//! ```text
//! slot                ├4K┤├4K┤├4K┤ …     16 pieces of 4 KiB
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

use crate::backend::arena::SLOT;
use crate::backend::check;
use crate::backend::page::{Block, Meta};
use crate::base::size_class::number_at;
use crate::base::sync::Ordering::Relaxed;
use crate::heap::reclaim::blocks::Blocks;
use crate::os;
use crate::proto::inbox::Link;
use core::ptr::null_mut;

/// The largest number of pieces of a slot: bits of [`Meta::holes`].
const PIECES: usize = 16;
/// Pieces of a page, as bits.
type Pieces = u128;
const _: () = assert!(Pieces::BITS as usize >= 8 * PIECES);

/// The bytes of a piece, at least a system page.
fn piece_bytes() -> usize {
    (SLOT / PIECES).max(os::page_size())
}

/// The pieces that block `i` reaches into. A piece is a power of two.
fn pieces_of(page: &Meta, piece: usize, i: usize) -> Pieces {
    let (size, shift) = (page.block_size.get() as usize, piece.trailing_zeros());
    run((i * size) >> shift, (((i + 1) * size - 1) >> shift) + 1)
}

/// The pieces from `first` to before `end`.
fn run(first: usize, end: usize) -> Pieces {
    let below = |n: usize| Pieces::MAX.checked_shr(Pieces::BITS - n as u32).unwrap_or(0);
    below(end) & !below(first)
}

/// The slots of a page, with the place of the first piece of each.
fn slots(page: &Meta, piece: usize) -> impl Iterator<Item = (&'static Meta, usize)> {
    (0..page.span.load(Relaxed)).map(move |i| {
        // SAFETY: the page has `span` slots from its first on, so the segment has them.
        (unsafe { page.forward(i) }, i as usize * (SLOT / piece))
    })
}

/// The holes of the page: each slot's metadata has those that lie in the slot.
fn holes(page: &Meta, piece: usize) -> Pieces {
    slots(page, piece).fold(0, |all, (slot, at)| all | Pieces::from(slot.holes.get()) << at)
}

fn set_holes(page: &Meta, piece: usize, holes: Pieces) {
    for (slot, at) in slots(page, piece) {
        slot.holes.set((holes >> at & run(0, SLOT / piece)) as u16);
    }
}

/// True if a purge would probably give back an eighth of the page or more. O(1).
///
/// If the used blocks lie at random, a piece of `k` blocks has no used one with probability
/// (free / all)^k.
pub fn is_worth_it(page: &Meta) -> bool {
    const ONE: u64 = 1 << 16;
    let (cap, used) = (u64::from(page.cap.get()), page.list.until_slow.get().max(0) as u64);
    let mut part = cap.saturating_sub(used) * ONE / cap.max(1);
    let blocks = piece_bytes() as u64 / u64::from(page.block_size.get()).max(1);
    for _ in 0..blocks.max(1).ilog2() {
        part = part * part / ONE;
    }
    let pieces = (page.bytes() / piece_bytes()) as u64;
    let holes = u64::from(holes(page, piece_bytes()).count_ones());
    pieces * part >= (holes + pieces.div_ceil(8)) * ONE
}

/// Purges what no used block reaches into: pieces of the page, and what lies behind its carved
/// blocks. Returns the bytes given back. O(blocks).
///
/// # Safety
/// The calling thread is the owner of the page's list and holes: the holder of its heap, or the
/// thread that took it out to purge it. It is the owner during the call.
pub unsafe fn purge_holes(page: &Meta) -> usize {
    // SAFETY: the caller is the owner of the page, and stays so (rule 1).
    purge_tail(page) + unsafe { purge_pieces(page) }
}

/// Purges the memory behind the carved blocks. A slot that was in use before still has it.
fn purge_tail(page: &Meta) -> usize {
    let used = (page.carved.get() * page.block_size.get()) as usize;
    let from = used.next_multiple_of(piece_bytes());
    // Memory that was zero is not resident, unless it came as a part of a huge page.
    let was_resident = !page.zero.get() || page.segment().is_thp();
    if from >= page.bytes() || page.is_tail_purged.replace(true) || !was_resident {
        return 0;
    }
    let is_given = os::purge(page.start().addr() + from, page.bytes() - from);
    // Where the system refused, as for locked memory, a later purge tries again.
    page.is_tail_purged.set(is_given);
    if is_given { page.bytes() - from } else { 0 }
}

/// Purges the pieces among the carved blocks that no used block reaches into.
///
/// # Safety
/// As [`purge_holes`].
unsafe fn purge_pieces(page: &Meta) -> usize {
    let carved = page.carved.get() as usize;
    let (start, size, piece) = (page.start(), page.block_size.get() as usize, piece_bytes());
    let class = page.class.get();

    page.fetch();
    let mut free = Blocks::new();
    let mut block = page.list.free.get();
    while !block.is_null() {
        // Beyond the page's 512 KiB at most, any number will do that is no carved block's.
        let offset = u32::try_from(block.addr().wrapping_sub(start.addr())).unwrap_or(u32::MAX);
        let i = number_at(class, offset) as usize;
        if i >= carved || !free.add(i) {
            check::corrupt(block.cast());
        }
        // SAFETY: the block is on the list of the page, which the caller owns (rule 1). The check
        // above found it in the carved part.
        block = unsafe { Block::next(block) };
    }
    let old = holes(page, piece);
    let mut kept = old;
    free.each_other(carved, |i| {
        let pieces = pieces_of(page, piece, i);
        if pieces & old == 0 {
            kept |= pieces; // Block `i` is neither listed nor in a hole: it is used.
        }
    });
    let whole = carved * size / piece; // Rule 3.
    let new = !kept & run(0, whole);
    if new == 0 {
        return 0;
    }

    let mut in_holes = 0;
    each_run(new, |first, end| {
        in_holes += free.remove(first * piece / size, (end * piece - 1) / size + 1);
    });
    let mut list = null_mut();
    free.each_from_last(carved, |i| {
        let block = start.wrapping_add(i * size).cast::<Block>();
        // SAFETY: the block was on the list, so it is free, and the caller owns the page (rule 1).
        // The new list gets it, and the old list is not used any more.
        unsafe { Block::set_next(block, list) };
        list = block;
    });
    page.list.free.set(list);
    page.in_holes.set(page.in_holes.get() + in_holes);
    set_holes(page, piece, old | new);
    give_back(page, piece, new)
}

/// Calls `f` for each run of neighbours among the pieces, with its first one and its end.
fn each_run(pieces: Pieces, mut f: impl FnMut(usize, usize)) {
    let mut rest = pieces;
    while rest != 0 {
        let first = rest.trailing_zeros() as usize;
        let end = first + (rest >> first).trailing_ones() as usize;
        rest &= !run(first, end);
        f(first, end);
    }
}

fn give_back(page: &Meta, piece: usize, holes: Pieces) -> usize {
    let mut given = 0;
    each_run(holes, |first, end| {
        // Even if the system refuses, the piece counts as a hole.
        if os::purge(page.start().addr() + first * piece, (end - first) * piece) {
            given += (end - first) * piece;
        }
    });
    given
}

/// Fills the first holes of the page until at least one block is in no hole any more, and links
/// such blocks in the order of their addresses. Returns the first block and their number. None:
/// there is no hole. O(blocks of the pieces).
///
/// # Safety
/// The calling thread is the owner of the page: the holder of its heap, or of the lock of parked
/// pages. It is the owner during the call.
#[unsafe(link_section = ".text.hot.hakmem")]
pub unsafe fn fill(page: &Meta) -> Option<(*mut Block, u32)> {
    if page.in_holes.get() == 0 {
        return None;
    }
    let (piece, size) = (piece_bytes(), page.block_size.get() as usize);
    let mut holes = holes(page, piece);
    while holes != 0 {
        let first = holes.trailing_zeros() as usize;
        holes &= !run(first, first + 1);
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
        if count > 0 {
            page.in_holes.set(page.in_holes.get() - count as u16);
            set_holes(page, piece, holes);
            return Some((list, count));
        }
    }
    None
}
