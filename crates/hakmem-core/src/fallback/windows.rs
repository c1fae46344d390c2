//! The heap of the process, on Windows.
//!
//! A block that is aligned further than the heap aligns lies in a larger one. The word before it is
//! the address of the larger one.

use super::alloc::is_plain;
use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// What the heap aligns to: MEMORY_ALLOCATION_ALIGNMENT.
pub const MIN_ALIGN: usize = 2 * size_of::<usize>();

const HEAP_ZERO_MEMORY: u32 = 8;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetProcessHeap() -> *mut c_void;
    fn HeapAlloc(heap: *mut c_void, flags: u32, bytes: usize) -> *mut c_void;
    fn HeapReAlloc(heap: *mut c_void, flags: u32, block: *mut c_void, bytes: usize) -> *mut c_void;
    fn HeapFree(heap: *mut c_void, flags: u32, block: *mut c_void) -> c_int;
}

fn take(layout: Layout, flags: u32) -> *mut u8 {
    // A layout that is not plain may still have a small alignment: the heap aligns its block all
    // the same.
    if layout.align() <= MIN_ALIGN {
        // SAFETY: the heap of the process lives as long as the process, and takes any size.
        return unsafe { HeapAlloc(GetProcessHeap(), flags, layout.size()).cast() };
    }
    // Size and alignment together are at most isize::MAX + 1: a rule of `Layout`.
    let room = layout.size() + layout.align();
    // SAFETY: the heap of the process lives as long as the process, and takes any size.
    let whole: *mut u8 = unsafe { HeapAlloc(GetProcessHeap(), flags, room).cast() };
    if whole.is_null() {
        return null_mut();
    }
    let to_next = layout.align() - whole.addr() % layout.align();
    // SAFETY: `to_next` is at most the alignment, so the block lies in the room. `whole` is a
    // multiple of MIN_ALIGN, and the alignment a larger power of two. So `to_next` is a multiple of
    // MIN_ALIGN and not 0: a word fits before the block, and is aligned.
    unsafe {
        let block = whole.add(to_next);
        block.cast::<*mut u8>().sub(1).write(whole);
        block
    }
}

pub fn allocate(layout: Layout) -> *mut u8 {
    take(layout, 0)
}

pub fn zeroed(layout: Layout) -> *mut u8 {
    take(layout, HEAP_ZERO_MEMORY)
}

/// # Safety
/// `ptr` is live, from this file, and was allocated with `layout`.
pub unsafe fn free(ptr: *mut u8, layout: Layout) {
    // SAFETY: the caller promises a live block of this layout: with a large alignment `take` has
    // written the address of the larger block before it. That one is the heap's.
    unsafe {
        let whole =
            if layout.align() <= MIN_ALIGN { ptr } else { ptr.cast::<*mut u8>().sub(1).read() };
        HeapFree(GetProcessHeap(), 0, whole.cast());
    }
}

/// # Safety
/// `ptr` is live, from this file, and was allocated with `layout`. The layout is plain, also with
/// the new size.
pub unsafe fn resize(ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    debug_assert!(is_plain(layout));
    // SAFETY: the caller promises a live block, and a plain one is the heap's own.
    unsafe { HeapReAlloc(GetProcessHeap(), 0, ptr.cast(), new_size).cast() }
}

/// Writes to a file descriptor of the C library. False: it did not take all of it.
pub fn write(fd: c_int, mut text: &[u8]) -> bool {
    while !text.is_empty() {
        let most = text.len().min(1 << 20);
        // SAFETY: the C library reads the text within its length.
        let n = unsafe { libc::write(fd, text.as_ptr().cast(), most as u32) };
        match usize::try_from(n) {
            Ok(n @ 1..) => text = text.get(n..).unwrap_or_default(),
            _ => return false,
        }
    }
    true
}
