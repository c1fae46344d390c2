//! The two front ends of the allocator behind one interface.

use hakmem_core::{Hakmem, c};
use std::alloc::{GlobalAlloc, Layout};

/// What the oracle asks of an allocator. The methods are safe, as the oracle passes only live
/// blocks that it got from the same front end.
pub trait FrontEnd: Copy {
    /// True if a caller may ask for a size of 0.
    const EMPTY: bool;
    /// True if `usable` returns a size.
    const TELLS_USABLE: bool;

    fn alloc(&self, layout: Layout) -> *mut u8;
    fn alloc_zeroed(&self, layout: Layout) -> *mut u8;
    fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8;
    fn dealloc(&self, block: *mut u8, layout: Layout);

    /// The usable size, if the front end reports it.
    fn usable(&self, _block: *mut u8) -> Option<usize> {
        None
    }

    /// The alignment that a block of alignment `align` has after a realloc.
    fn realloc_align(&self, align: usize) -> usize {
        align
    }
}

/// `GlobalAlloc`.
#[derive(Debug, Clone, Copy)]
pub struct Rust;

static HAKMEM: Hakmem = Hakmem::new();

impl FrontEnd for Rust {
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
        // SAFETY: the oracle passes a live block with its layout. The size is not 0, and the oracle
        // has made a `Layout` of it.
        unsafe { HAKMEM.realloc(block, layout, size) }
    }

    fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the oracle passes a live block with its layout, and gives it up.
        unsafe { HAKMEM.dealloc(block, layout) }
    }
}

/// The functions that `malloc` and its family are made of.
#[derive(Debug, Clone, Copy)]
pub struct C;

/// The alignment of every block.
const MIN_ALIGN: usize = 16;

impl FrontEnd for C {
    const EMPTY: bool = true;
    const TELLS_USABLE: bool = true;

    fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match layout.align() {
            // SAFETY: `malloc` allows any size.
            ..=MIN_ALIGN => unsafe { c::malloc(layout.size()) },
            // SAFETY: the alignment of a `Layout` is a power of two.
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
            // C has no aligned calloc, so a caller clears the block itself.
            let block = self.alloc(layout);
            if !block.is_null() {
                // SAFETY: the block is live and has at least the layout's size.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        // SAFETY: `zeroed` allows any size.
        unsafe { c::zeroed(layout.size()) }
    }

    fn realloc(&self, block: *mut u8, _layout: Layout, size: usize) -> *mut u8 {
        assert!(size > 0);
        // SAFETY: the oracle passes a live block. The size is not 0.
        unsafe { c::realloc(block, size) }
    }

    fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the oracle passes a live block, and gives it up.
        unsafe { c::free(block) }
    }

    fn usable(&self, block: *mut u8) -> Option<usize> {
        // SAFETY: the oracle passes a live block.
        Some(unsafe { c::usable_size(block) })
    }

    fn realloc_align(&self, align: usize) -> usize {
        align.min(MIN_ALIGN)
    }
}
