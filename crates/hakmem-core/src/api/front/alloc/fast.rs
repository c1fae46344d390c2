//! The fast path: a request takes the first block of the thread's list of its class. If the list is
//! empty, a function that is not inlined serves the request.
//!
//! Rules
//! 1. Only the holder of the heap takes from its lists (`heap` rule 1), by the steps of
//!    `proto::take_away`.
//! 2. A path that finds the list empty ends with the call of the slow path.

use super::big::alloc_large;
use super::{alloc_nothing, finish, from_class, size_of};
use crate::backend::check;
use crate::backend::page::Block;
use crate::base::address::formed;
use crate::base::prefetch::prefetch;
use crate::base::size_class::{self, FIRST_LONG, MEDIUM_MAX, NOTHING, SMALL_MAX};
use crate::proto::inbox::Link;
use crate::proto::take_away;
use crate::thread;

/// Allocates a block for `n` bytes, aligned to 16. Returns null with errno ENOMEM if there is no
/// memory. O(1).
#[inline(always)]
pub fn alloc16(n: usize) -> *mut u8 {
    if n > SMALL_MAX {
        return alloc16_unlisted(n);
    }
    // SAFETY: the check above gives n <= SMALL_MAX.
    let class = unsafe { listed_class(n) };
    pop(class).unwrap_or_else(|| alloc16_slow(n, class))
}

/// [`alloc16`] with the caller's own slow path.
#[inline(always)]
pub fn alloc16_or(n: usize, slow: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    if n <= SMALL_MAX
        // SAFETY: the first condition gives n <= SMALL_MAX.
        && let Some(block) = pop(unsafe { listed_class(n) })
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
    let class = unsafe { listed_class(n) };
    pop(class).map(|p| (p, class))
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

/// The class of `n` bytes, from the table in the thread's front.
///
/// # Safety
/// `n` is at most SMALL_MAX.
#[inline(always)]
unsafe fn listed_class(n: usize) -> usize {
    // SAFETY: the word of a thread always points to a readable front. The caller promises n <=
    // SMALL_MAX, so the index is at most TABLE16 - 1.
    usize::from(unsafe { *(*thread::front()).class16.get_unchecked((n + 15) >> 4) })
}

/// Takes the first block of the thread's list of `class`.
#[inline(always)]
fn pop(class: usize) -> Option<*mut u8> {
    // SAFETY: the word of a thread always points to a readable front. Classes are below CLASSES. A
    // block on the list is free, and only this thread, the holder of the heap, uses the list
    // (`heap` rule 1).
    unsafe {
        let list = formed((*thread::front()).free.get_unchecked(class));
        let block = list.get();
        if block.is_null() {
            return None;
        }
        let next = Block::next(block);
        take_away::pop(|| list.set(next));
        // The next call pops this block: it reads the link, and then the program writes to the
        // block.
        prefetch(next);
        Some(block.cast())
    }
}

/// [`pop`] for a class above `SMALL_MAX`, for a request of `n` bytes. Frees put blocks onto these
/// lists, and nobody looks at them before. So the slow path takes the block, too, if the next one
/// does not lie in the first arena: it checks the link further.
#[inline(always)]
fn alloc_kept(n: usize, class: usize) -> *mut u8 {
    pop_kept(class).unwrap_or_else(|| alloc16_slow(n, class))
}

/// A block of a class above `SMALL_MAX` from the thread's list. None: the slow path has to take
/// it.
#[inline(always)]
pub fn pop_kept(class: usize) -> Option<*mut u8> {
    let front = thread::front();
    // SAFETY: the word of a thread always points to a readable front. Classes are below CLASSES. A
    // block on the list is free, and only this thread, the holder of the heap, uses the list
    // (`heap` rule 1).
    unsafe {
        let list = formed((*front).free.get_unchecked(class));
        let block = list.get();
        if block.is_null() {
            return None;
        }
        let next = Block::next(block);
        if !check::is_plain_link(next) {
            // The refill takes it, and checks the link.
            return None;
        }
        take_away::pop(|| list.set(next));
        let kept = formed((*front).kept.get_unchecked(class - FIRST_LONG));
        kept.set(kept.get().saturating_sub(1));
        // These lists are short. A fetch of address 0 walks the page tables each time, as the
        // processor keeps no translation of a page that is not there.
        if !next.is_null() {
            prefetch(next);
        }
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
    alloc_kept(n, class)
}

#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
extern "C" fn alloc16_slow(n: usize, class: usize) -> *mut u8 {
    if class == NOTHING {
        return alloc_nothing();
    }
    finish(from_class(class, n))
}

#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub extern "C" fn alloc_class_slow(class: usize) -> *mut u8 {
    if class == NOTHING {
        return alloc_nothing();
    }
    finish(from_class(class, size_of(class)))
}
