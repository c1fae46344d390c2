//! The C library's allocator.

use super::alloc::is_plain;
use core::alloc::Layout;
use core::ffi::c_int;
use core::ptr::null_mut;

/// malloc aligns blocks of that size and larger ones to two pointers, on every system known.
pub const MIN_ALIGN: usize = 2 * size_of::<usize>();

pub fn allocate(layout: Layout) -> *mut u8 {
    if is_plain(layout) {
        // SAFETY: malloc takes any size.
        return unsafe { libc::malloc(layout.size()).cast() };
    }
    // macOS aligns wrong beyond 2 GiB.
    if cfg!(target_vendor = "apple") && layout.align() > 1 << 31 {
        return null_mut();
    }
    let mut block = null_mut();
    // SAFETY: the alignment is a power of two, and no less than a pointer's. `block` is a place for
    // the address.
    match unsafe {
        libc::posix_memalign(&mut block, layout.align().max(size_of::<usize>()), layout.size())
    } {
        0 => block.cast(),
        _ => null_mut(),
    }
}

pub fn zeroed(layout: Layout) -> *mut u8 {
    if is_plain(layout) {
        // SAFETY: calloc takes any sizes.
        return unsafe { libc::calloc(1, layout.size()).cast() };
    }
    let block = allocate(layout);
    if !block.is_null() {
        // SAFETY: a new block of that size.
        unsafe { block.write_bytes(0, layout.size()) };
    }
    block
}

/// # Safety
/// `ptr` is live, and from `allocate` or `zeroed` or `resize`.
pub unsafe fn free(ptr: *mut u8, _: Layout) {
    // SAFETY: the caller promises a live block of the C library, and free takes aligned ones, too.
    unsafe { libc::free(ptr.cast()) }
}

/// # Safety
/// `ptr` is live, from this file, and was allocated with `layout`. The layout is plain, also with
/// the new size.
pub unsafe fn resize(ptr: *mut u8, _: Layout, new_size: usize) -> *mut u8 {
    // SAFETY: the caller promises a live block of the C library.
    unsafe { libc::realloc(ptr.cast(), new_size).cast() }
}

/// Writes to a file descriptor. False: it did not take all of it.
pub fn write(fd: c_int, mut text: &[u8]) -> bool {
    while !text.is_empty() {
        // SAFETY: the system reads the text within its length.
        let n = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
        match usize::try_from(n) {
            Ok(n @ 1..) => text = text.get(n..).unwrap_or_default(),
            _ => return false,
        }
    }
    true
}
