//! The fast path: a request takes the first block of the thread's list of its class. If the list is
//! empty, or if the link of that block is no plain one, a function that is not inlined serves the
//! request.
//!
//! Rules
//! 1. Only the holder of the heap takes from its lists (`heap` rule 1), by the steps of
//!    `proto::take_away`.
//! 2. A path that takes no block ends with the call of the slow path.

use super::big::alloc_large;
use super::{alloc_nothing, finish, from_class, size_of};
use crate::backend::check;
use crate::backend::list::List;
use crate::backend::page::Block;
use crate::base::address::formed;
use crate::base::prefetch::prefetch;
use crate::base::size_class::{self, FIRST_LONG, MEDIUM_MAX, NOTHING, SMALL_MAX};
use crate::heap::Heap;
use crate::proto::inbox::Link;
use crate::proto::take_away;
use crate::{guard, harden, profile, thread};
use core::hint::select_unpredictable;

/// Allocates a block for `n` bytes, aligned to 16. Returns null with errno ENOMEM if there is no
/// memory. O(1).
#[inline(always)]
pub fn alloc16(n: usize) -> *mut u8 {
    if n > SMALL_MAX {
        return alloc16_unlisted(n);
    }
    // SAFETY: the check above gives n <= SMALL_MAX.
    let place = unsafe { place_for(n) };
    pop_at(place).unwrap_or_else(|| alloc16_slow(n, place))
}

/// [`alloc16`] with the caller's own slow path.
#[inline(always)]
pub fn alloc16_or(n: usize, slow: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    if n <= SMALL_MAX
        // SAFETY: the first condition gives n <= SMALL_MAX.
        && let Some(block) = pop_at(unsafe { place_for(n) })
    {
        return block;
    }
    slow(n)
}

/// A block for `n` bytes, aligned to 16, from the thread's list, and its class. None: the list is
/// empty, or the request is not small.
#[inline(always)]
pub fn pop16(n: usize) -> Option<(*mut u8, usize)> {
    if n > SMALL_MAX {
        return None;
    }
    // SAFETY: the check above gives n <= SMALL_MAX.
    let place = unsafe { place_for(n) };
    pop_at(place).map(|p| (p, place / PLACES))
}

/// Allocates a block of `class`. A caller with a constant layout passes a constant class. Returns
/// null with errno ENOMEM if there is no memory.
#[inline(always)]
pub fn alloc_class(class: usize) -> *mut u8 {
    if class >= FIRST_LONG {
        alloc16_unlisted(size_of(class))
    } else {
        alloc_class_or(class, |class| alloc_class_slow(class))
    }
}

/// [`alloc_class`] of a small class, with the caller's own slow path. That path ends with a call of
/// `alloc_class_slow`.
#[inline(always)]
pub fn alloc_class_or(class: usize, slow: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    pop(class).unwrap_or_else(|| slow(class))
}

/// Words from one list to the next.
const PLACES: usize = core::mem::size_of::<List>() / 8;

/// The place of the list for `n` bytes, from the table in the thread's front (`PLACE16`).
///
/// # Safety
/// `n` is at most SMALL_MAX.
#[inline(always)]
unsafe fn place_for(n: usize) -> usize {
    // SAFETY: the word of a thread always points to a readable front. The caller promises n <=
    // SMALL_MAX, so the index is at most TABLE16 - 1.
    usize::from(unsafe { *(*thread::front()).place16.get_unchecked((n + 15) >> 4) })
}

/// Takes the first block of the thread's list of `class`.
#[inline(always)]
pub(super) fn pop(class: usize) -> Option<*mut u8> {
    pop_at(class * PLACES)
}

/// Takes the first block of the thread's list at `place`, which `PLACE16` has. None: the list has
/// no block, its last one, or one with a wrong link.
#[inline(always)]
fn pop_at(place: usize) -> Option<*mut u8> {
    // SAFETY: the word of a thread always points to a readable front. Its lists begin it, and the
    // place is that of one of them. A block on the list is free, and only this thread, the holder
    // of the heap, uses the list (`heap` rule 1).
    unsafe {
        let list = thread::front().cast::<u64>().add(place).cast::<List>();
        let list = &formed(&*list).free;
        let block = list.get();
        if block.is_null() {
            return None;
        }
        let next = Block::next(block);
        // A write to a free block does not turn the list to memory elsewhere. The hardened build
        // has checked the link already.
        if harden::ON {
            prefetch(next);
        } else if !check::is_link_in_page(block, next) || check::is_circle(block, next) {
            return None;
        }
        take_away::pop(|| list.set(next));
        Some(block.cast())
    }
}

/// True while the profile or guards may want a sample. One branch for both: neither is on, mostly.
#[inline(always)]
pub(super) fn is_sampled() -> bool {
    profile::run() | guard::every() != 0
}

/// A block of a class above `SMALL_MAX` from the thread's list. None: the slow path has to take
/// it.
#[inline(always)]
pub fn pop_kept(class: usize) -> Option<*mut u8> {
    if is_sampled() { pop_unsampled(class) } else { pop_checked(class) }
}

/// [`pop_kept`] while allocations are sampled. None: the slow path has to ask whether the block is
/// a sample.
#[cold]
#[inline(never)]
fn pop_unsampled(class: usize) -> Option<*mut u8> {
    thread::heap().filter(|heap| heap.may_take(class)).and_then(|_| pop_checked(class))
}

/// [`alloc16_unlisted`] of a block with a class while allocations are sampled.
#[cold]
#[inline(never)]
fn alloc_kept_sampled(n: usize, class: usize) -> *mut u8 {
    pop_unsampled(class).unwrap_or_else(|| alloc16_slow(n, class * PLACES))
}

/// Takes the first block of the thread's list of a class above `SMALL_MAX`, unless something is
/// wrong with it: then the slow path says what. Frees put blocks onto these lists, and check only
/// that the block is not the first one there.
#[inline(always)]
fn pop_checked(class: usize) -> Option<*mut u8> {
    let front = thread::front();
    // SAFETY: the word of a thread always points to a readable front. Classes are below CLASSES. A
    // block on the list is free, and only this thread, the holder of the heap, uses the list
    // (`heap` rule 1).
    unsafe {
        let list = formed((*front).lists.get_unchecked(class));
        let block = list.free.get();
        // Before the link, which is no word of a block if no block starts here.
        if block.is_null() || !check::may_start(block, class as u8) {
            return None;
        }
        let next = Block::next(block);
        // These lists are short, so no processor predicts whether the block is the last one, nor
        // whether it is a freed one: neither is a branch. A fetch of address 0 walks the page
        // tables each time, as the processor keeps no translation of a page that is not there.
        let near = select_unpredictable(next.is_null(), block, next);
        if check::CHECKED && !check::is_plain_link(near) {
            return None;
        }
        prefetch(near);
        take_away::pop(|| list.free.set(next));
        let was_freed = list.count_taken();
        // The front of a scope has no such block (`program::scope`), and a heap begins with its
        // front.
        let reused = (*front.cast::<Heap>()).counts.reused.get_unchecked(class - FIRST_LONG);
        reused.add(was_freed.into());
        Some(block.cast())
    }
}

/// [`alloc16`] of more than SMALL_MAX bytes.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub extern "C" fn alloc16_unlisted(n: usize) -> *mut u8 {
    if n > MEDIUM_MAX {
        return alloc_large(n);
    }
    let class = size_class::computed(n);
    if is_sampled() {
        return alloc_kept_sampled(n, class);
    }
    pop_checked(class).unwrap_or_else(|| alloc16_slow(n, class * PLACES))
}

/// Takes the first block of the thread's list of `class`, one up to `SMALL_MAX`, if it is the last
/// one, or if the next one is in another page. None: the list has no block, or a wrong link.
#[inline(always)]
fn pop_far(class: usize) -> Option<*mut u8> {
    if class >= FIRST_LONG || harden::ON {
        return None;
    }
    // SAFETY: as in `pop_at`.
    unsafe {
        let list = &(*thread::front()).lists.get_unchecked(class).free;
        let block = list.get();
        if block.is_null() {
            return None;
        }
        let next = Block::next(block);
        // One into a further arena is left to the slow path, too.
        if !check::is_sound(class, block, next) {
            return None;
        }
        take_away::pop(|| list.set(next));
        Some(block.cast())
    }
}

#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn alloc16_slow(n: usize, place: usize) -> *mut u8 {
    let class = place / PLACES;
    pop_far(class).unwrap_or_else(|| alloc16_refilled(n, class))
}

/// [`alloc16_slow`] if the list has no block that may be taken.
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn alloc16_refilled(n: usize, class: usize) -> *mut u8 {
    if class == NOTHING {
        return alloc_nothing();
    }
    finish(from_class(class, n))
}

#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub extern "C" fn alloc_class_slow(class: usize) -> *mut u8 {
    pop_far(class).unwrap_or_else(|| match class {
        NOTHING => alloc_nothing(),
        _ => alloc16_refilled(size_of(class), class),
    })
}
