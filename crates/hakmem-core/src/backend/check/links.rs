//! The links of free blocks: whether one leads to where a block may start.
//!
//! A free of the program's own or a write to a free block may have made it. malloc asks before it
//! follows a link. So such a write does not turn a list to memory elsewhere.

use super::{CHECKED, corrupt, may_start};
use crate::backend::arena::SLOT;
use crate::backend::page::{self, Block, Meta};

/// Ends the process if `next`, the link of `block`, is neither null nor a multiple of 16 in an
/// arena.
#[inline(always)]
pub fn check_link(block: *mut Block, next: *mut Block) {
    if !is_plain_link(next) {
        check_far_link(block, next);
    }
}

/// True if `next`, the link of `block`, leads to a multiple of 8 in the page of one slot that
/// `block` is of: then malloc of a small block takes it for the next one. The last block of a list
/// has no such link.
#[inline(always)]
pub fn is_link_in_page(block: *mut Block, next: *mut Block) -> bool {
    const SAME: usize = !(SLOT - 1) | 7;
    !CHECKED || (next.addr() ^ block.addr()) & SAME == 0
}

/// True if `next`, the link of a block of `class`, one up to `SMALL_MAX`, is null or leads to a
/// place where a block of the class starts.
pub fn is_link_to(class: usize, next: *mut Block) -> bool {
    !CHECKED
        || is_near_link(class, next)
        || page::lookup(next.cast()).is_some_and(|at| starts(class, next, at))
}

/// True if `block` starts where one of `class` may, and if [`is_link_to`] says so of its link,
/// `next`. False if that leads into a further arena.
#[inline(always)]
pub fn is_sound(class: usize, block: *mut Block, next: *mut Block) -> bool {
    !CHECKED || may_start(block, class as u8) && is_near_link(class, next)
}

/// [`is_link_to`] for places in the first arena. False for all others.
#[inline(always)]
fn is_near_link(class: usize, next: *mut Block) -> bool {
    let starts = |at: &Meta| starts(class, next, at);
    next.is_null() || page::lookup_first(next.cast()).is_some_and(starts)
}

/// True if a block of `class`, one up to `SMALL_MAX`, starts at `block`, in the slot of `at`: such
/// blocks lie in pages of one slot, and only pages have an owner.
#[inline(always)]
fn starts(class: usize, block: *mut Block, at: &Meta) -> bool {
    !at.has_no_owner() && usize::from(at.class.glance()) == class && may_start(block, class as u8)
}

/// True if `next` is null or a multiple of 16 in the first arena: then it needs no further check.
#[inline(always)]
pub fn is_plain_link(next: *mut Block) -> bool {
    !CHECKED || next.is_null() || page::bounds::offset16(next.addr()).is_some()
}

/// [`check_link`] for a link that does not lead into the first arena. Classes for alignments of 8
/// have lists of blocks that are no multiples of 16, but not above 1 KiB.
#[cold]
#[inline(never)]
fn check_far_link(block: *mut Block, next: *mut Block) {
    if !next.addr().is_multiple_of(8) || page::lookup(next.cast()).is_none() {
        corrupt(block.cast());
    }
}
