//! The links of free blocks: whether one leads to where a block may start.
//!
//! A free of the program's own or a write to a free block may have made it. malloc asks before it
//! follows a link. So such a write does not turn a list to memory elsewhere.

use super::{CHECKED, Carved, corrupt, freed_twice, is_block_of, may_start};
use crate::backend::arena::{self, SLOT};
use crate::backend::page::{self, Block, Kind, Meta};
use crate::harden;

/// Ends the process if `next`, the link of `block`, is neither null nor a multiple of 16 in an
/// arena.
#[inline(always)]
pub fn check_link(block: *mut Block, next: *mut Block) {
    if !is_plain_link(next) {
        check_far_link(block, next);
    }
}

/// Ends the process if `next`, the link of `block`, is neither null nor leads to a block of `page`:
/// for lists of one page.
#[inline(always)]
pub fn check_link_of(page: &Meta, block: *mut Block, next: *mut Block) {
    if CHECKED && !next.is_null() && !Carved::around(page, block).has(next) {
        corrupt(block.cast());
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

/// True if the link of `next`, which is that of `block`, leads back to `block`: the program freed
/// this one twice, with the other one between. The next call pops `next`, so the read fetches what
/// that needs.
///
/// # Safety
/// `next` is accessible, for instance as [`is_link_in_page`] says that it leads into the page of
/// `block`.
#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer))))]
#[inline(always)]
pub unsafe fn is_circle(block: *mut Block, next: *mut Block) -> bool {
    if !CHECKED {
        return false;
    }
    // A relaxed load and a comparison; as one instruction, which the compiler does not make of an
    // atomic load.
    // SAFETY: reads a word that the caller says is accessible.
    unsafe {
        core::arch::asm!(
            "cmp {block}, qword ptr [{next}]",
            "je {circle}",
            block = in(reg) block,
            next = in(reg) next,
            circle = label { return true },
            options(readonly, nostack)
        );
    }
    false
}

/// The same for checkers, which read no assembly, and for processors that load and then compare.
///
/// # Safety
/// `next` is accessible.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer)))))]
#[inline(always)]
pub unsafe fn is_circle(block: *mut Block, next: *mut Block) -> bool {
    // SAFETY: the caller says that the word is accessible.
    CHECKED && unsafe { (*next).next.glance() } == block
}

/// True if `next`, the link of a block of `class`, one up to `SMALL_MAX`, is null or leads to a
/// place where a block of the class starts.
pub fn is_link_to(class: usize, next: *mut Block) -> bool {
    !CHECKED
        || is_near_link(class, next)
        || arena::is_for_ever(next.addr())
            && page::lookup(next.cast()).is_some_and(|at| starts(class, next, at))
}

/// True if `block`, which is on a list, starts where one of `class` may, and if its link, `next`,
/// is as [`is_link_to`] says, and does not lead back. False if it leads into a further arena.
#[inline(always)]
pub fn is_sound(class: usize, block: *mut Block, next: *mut Block) -> bool {
    // SAFETY: a block of the class starts at `next`, so its memory is accessible.
    let is_circle = || !next.is_null() && unsafe { is_circle(block, next) };
    !CHECKED || may_start(block, class as u8) && is_near_link(class, next) && !is_circle()
}

/// [`is_link_to`] for places in the first arena. False for all others.
#[inline(always)]
fn is_near_link(class: usize, next: *mut Block) -> bool {
    let starts = |at: &Meta| starts(class, next, at);
    // The link may be any number (`arena::is_for_ever`).
    next.is_null()
        || arena::is_for_ever(next.addr()) && page::lookup_first(next.cast()).is_some_and(starts)
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

/// Ends the process if `next`, the link of a block of a program heap's list, leads to no place of a
/// block of `class` in such a heap.
pub fn check_program_link(class: usize, block: *mut Block, next: *mut Block) {
    if !CHECKED || next.is_null() {
        return;
    }
    let is_of_class = |slot: &'static Meta| {
        let page = slot.head();
        page.kind() == Kind::ProgramPage
            && usize::from(page.class.glance()) == class
            && is_block_of(page, next)
    };
    if !arena::is_for_ever(next.addr()) || !page::lookup(next.cast()).is_some_and(is_of_class) {
        corrupt(block.cast());
    }
    // SAFETY: a block starts at `next`, so its memory is accessible.
    if !harden::ON && unsafe { is_circle(block, next) } {
        freed_twice(block);
    }
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
