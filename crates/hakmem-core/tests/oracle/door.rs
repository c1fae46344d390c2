//! The two doors of the allocator behind one interface.

use hakmem_core::{Hakmem, c};
use std::alloc::{GlobalAlloc, Layout};

/// What the oracle asks of an allocator. The methods are safe: the oracle passes on only what it was given here.
pub trait Door: Copy {
    /// Whether a size of 0 may be asked for.
    const EMPTY: bool;
    /// Whether `usable` has an answer.
    const TELLS_USABLE: bool;

    fn alloc(&self, layout: Layout) -> *mut u8;
    fn alloc_zeroed(&self, layout: Layout) -> *mut u8;
    fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8;
    fn dealloc(&self, block: *mut u8, layout: Layout);

    /// The usable size, if the door tells it.
    fn usable(&self, _block: *mut u8) -> Option<usize> {
        None
    }

    /// The alignment that is left of `align` after a realloc.
    fn realloc_align(&self, align: usize) -> usize {
        align
    }
}

/// `GlobalAlloc`.
#[derive(Debug, Clone, Copy)]
pub struct Rust;

static HAKMEM: Hakmem = Hakmem::new();

impl Door for Rust {
    const EMPTY: bool = false;
    const TELLS_USABLE: bool = false;

    fn alloc(&self, layout: Layout) -> *mut u8 {
        assert!(layout.size() > 0);
        // SAFETY: the size is not 0.
        unsafe { HAKMEM.alloc(layout) }
    }

    fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        assert!(layout.size() > 0);
        // SAFETY: the size is not 0.
        unsafe { HAKMEM.alloc_zeroed(layout) }
    }

    fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        assert!(size > 0);
        // SAFETY: a live block with its layout, from the oracle; the size is not 0, and a Layout of it was made.
        unsafe { HAKMEM.realloc(block, layout, size) }
    }

    fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: a live block with its layout, from the oracle, which gives it up.
        unsafe { HAKMEM.dealloc(block, layout) }
    }
}

/// The calls under malloc and its family.
#[derive(Debug, Clone, Copy)]
pub struct C;

/// The alignment of every block.
const MIN_ALIGN: usize = 16;

impl Door for C {
    const EMPTY: bool = true;
    const TELLS_USABLE: bool = true;

    fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match layout.align() {
            // SAFETY: any size is allowed.
            ..=MIN_ALIGN => unsafe { c::malloc(layout.size()) },
            // SAFETY: a Layout's alignment is a power of two.
            align => unsafe { c::memalign(align, layout.size()) },
        };
        assert!(
            block.addr().is_multiple_of(MIN_ALIGN),
            "{block:p} is not aligned to {MIN_ALIGN}"
        );
        block
    }

    fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() > MIN_ALIGN {
            // C has no aligned calloc: cleared by the caller.
            let block = self.alloc(layout);
            if !block.is_null() {
                // SAFETY: the block has the layout's size.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        // SAFETY: any size is allowed.
        unsafe { c::zeroed(layout.size()) }
    }

    fn realloc(&self, block: *mut u8, _layout: Layout, size: usize) -> *mut u8 {
        assert!(size > 0);
        // SAFETY: a live block from the oracle; the size is not 0.
        unsafe { c::realloc(block, size) }
    }

    fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: a live block from the oracle, which gives it up.
        unsafe { c::free(block) }
    }

    fn usable(&self, block: *mut u8) -> Option<usize> {
        // SAFETY: a live block from the oracle.
        Some(unsafe { c::usable_size(block) })
    }

    fn realloc_align(&self, align: usize) -> usize {
        align.min(MIN_ALIGN)
    }
}
