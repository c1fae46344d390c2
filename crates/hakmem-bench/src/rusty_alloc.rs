//! rusty_alloc as a peer: its functions as a global allocator.

use crate::heap::Subject;
use rusty_alloc::alloc as ra;
use std::alloc::{GlobalAlloc, Layout};

/// The alignment of every block, however small.
const NATURAL: usize = 8;

/// rusty_alloc. It needs no state here: each thread finds its heap by itself.
#[derive(Debug)]
pub struct RustyAlloc;

// SAFETY: the library's blocks are as large and as aligned as asked for, stay put until freed, and
// may be freed by any thread.
unsafe impl GlobalAlloc for RustyAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            ra::malloc(layout.size())
        } else {
            ra::malloc_aligned(layout.size(), layout.align())
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            ra::zalloc(layout.size())
        } else {
            ra::zalloc_aligned(layout.size(), layout.align())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, _: Layout) {
        // SAFETY: the caller passes a block of this allocator.
        unsafe { ra::free(ptr) };
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the block came from this allocator with `layout`, so the call is of the same
        // kind, and the caller gives it up.
        unsafe {
            if layout.align() <= NATURAL {
                ra::realloc(ptr, new_size)
            } else {
                ra::realloc_aligned(ptr, new_size, layout.align())
            }
        }
    }
}

impl Subject for RustyAlloc {
    #[inline(always)]
    fn subject() -> &'static Self {
        static SUBJECT: RustyAlloc = RustyAlloc;
        &SUBJECT
    }
}

/// That of the crate: the library cannot tell.
pub fn version() -> String {
    format!("crate {}", env!("RUSTY_ALLOC_CRATE_VERSION"))
}
