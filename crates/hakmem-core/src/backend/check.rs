//! Errors of the program that are seen: one clear line on standard error, then abort.
//!
//! What is checked without a cost to the fast paths: a pointer outside every arena (`foreign`), one that no block can
//! start at, a block of a page that has none out, a list that does not add up when it changes hands. The last finds
//! blocks freed twice and links overwritten after a free.

use crate::backend::arena::SLOT;
use crate::backend::page::{self, Block, Kind, Meta};
use crate::base::size_class;
use crate::os::fatal;
use crate::proto::inbox::Link;

/// Whether errors of the program are looked for. Only measurements of what that costs are built without it (feature
/// `bench-fast`): every look that is left out then depends on this, and nothing else does.
pub const CHECKED: bool = !cfg!(feature = "bench-fast");

/// `p`, a block of `page`, was freed although it is free.
#[cold]
#[inline(never)]
pub fn double_free(p: *mut u8, page: &Meta) -> ! {
    fatal(format_args!("double free of {p:p}, a block of {} bytes", page.block_size.get()))
}

/// A list does not add up; `p` is where that was seen.
#[cold]
#[inline(never)]
pub fn corrupt(p: *mut u8) -> ! {
    fatal(format_args!("corrupt free list at {p:p}: a block was freed twice or written to after it was freed"))
}

/// `p` points into an arena but is no live block there.
#[cold]
#[inline(never)]
pub fn not_a_block(p: *mut u8, meta: Option<&Meta>) -> ! {
    let Some(meta) = meta else {
        fatal(format_args!("invalid pointer {p:p}: inside the arena, in memory that was never handed out"));
    };
    match meta.kind() {
        Kind::Free => fatal(format_args!("invalid pointer {p:p}: nothing is allocated there (double free?)")),
        Kind::Page | Kind::Follow | Kind::Sampled => fatal(format_args!(
            "invalid pointer {p:p}: inside a page of {}-byte blocks, not at the start of a live one",
            meta.head().block_size.get()
        )),
        Kind::Large | Kind::Huge | Kind::SampledLarge | Kind::SampledHuge => {
            fatal(format_args!("invalid pointer {p:p}: inside the allocation that starts at {:p}", meta.start()))
        }
    }
}

/// Whether a block of `page` starts at `p`, which lies there.
#[inline(always)]
fn is_start(p: *mut u8, page: &Meta) -> bool {
    size_class::is_start(page.class.get(), (p.addr() - page.start().addr()) as u32)
}

/// Ends the process if `block`, which lies in `page`, is not where a block of it starts. For slow paths that are still short: of
/// pages of several slots only what blocks of all sizes have in common is looked at.
#[inline(always)]
pub fn check_start(block: *mut Block, page: &Meta) {
    if page.is_medium() {
        check_unit(block, page);
    } else {
        check_in_slot(block, page);
    }
}

/// The same in a page of one slot, which starts where that does.
#[inline(always)]
pub fn check_in_slot(block: *mut Block, page: &Meta) {
    if CHECKED && !size_class::is_start(page.class.get(), (block.addr() % SLOT) as u32) {
        not_a_block(block.cast(), Some(page));
    }
}

/// The same in a page of several slots.
#[inline(always)]
pub fn check_unit(block: *mut Block, page: &Meta) {
    if CHECKED && !block.addr().is_multiple_of(size_class::MEDIUM_UNIT) {
        not_a_block(block.cast(), Some(page));
    }
}

/// Ends the process if `p` lies in a page of blocks and is not where one of them starts.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn check_any(p: *mut u8) {
    if CHECKED && let Some(meta) = page::lookup(p) {
        let head = meta.head_of_block();
        if !head.owner().is_null() && !is_start(p, head) {
            not_a_block(p, Some(meta));
        }
    }
}

/// Whether `block` is where one of those of `page` starts that were ever handed out.
pub fn is_block_of(page: &Meta, block: *mut Block) -> bool {
    let (offset, size) = (block.addr().wrapping_sub(page.start().addr()), page.block_size.get() as usize);
    offset < page.carved.get() as usize * size && is_start(block.cast(), page)
}

/// Ends the process if `block`, a block's start in `page`, which is the caller's, was never handed out.
#[inline(always)]
pub fn check_carved(block: *mut Block, page: &Meta) {
    if CHECKED && block.addr() - page.start().addr() >= (page.carved.get() * page.block_size.get()) as usize {
        never_carved(block.cast());
    }
}

#[cold]
#[inline(never)]
fn never_carved(p: *mut u8) -> ! {
    fatal(format_args!("invalid pointer {p:p}: that block was never handed out"))
}

/// Counts a list of blocks of `page`, which must be no more than it has, each at a block's start, and then end.
pub fn count(list: *mut Block, page: &Meta) -> u32 {
    let (mut block, mut length) = (list, 0);
    while !block.is_null() {
        if CHECKED && (length == page.carved.get() || !is_block_of(page, block)) {
            corrupt(block.cast());
        }
        // SAFETY: inside the page's carved blocks.
        block = unsafe { Block::next(block) };
        length += 1;
    }
    length
}

/// Looks at the beginning of a list that changes hands: a block freed twice in a row, or twice with one between.
///
/// # Safety
/// The list is the calling thread's, not empty, and of blocks of `page`.
#[inline(always)]
pub unsafe fn peek(list: *mut Block, page: &Meta) {
    if !CHECKED {
        return;
    }
    // SAFETY: the blocks of the list are free, and this thread's to read; a link is null or leads to a further one.
    unsafe {
        let second = Block::next(list);
        if second == list || (!second.is_null() && Block::next(second) == list) {
            double_free(list.cast(), page);
        }
    }
}

/// Walks a list that changes hands: it must be `length` blocks of `page` and then end. Any block freed twice, any that was
/// never handed out, any pointer into one and any link overwritten since the last walk is seen.
#[cold]
#[inline(never)]
pub fn walk(list: *mut Block, length: i32, page: &Meta) {
    if !CHECKED {
        return;
    }
    let start = page.start().addr();
    let bytes = (page.carved.get() * page.block_size.get()) as usize;
    let class = page.class.get();
    let mut block = list;
    for _ in 0..length {
        let offset = block.addr().wrapping_sub(start);
        if offset >= bytes || !size_class::is_start(class, offset as u32) {
            corrupt(block.cast());
        }
        // SAFETY: inside the page's carved blocks.
        block = unsafe { Block::next(block) };
    }
    if length <= 0 || !block.is_null() {
        corrupt(list.cast());
    }
}
