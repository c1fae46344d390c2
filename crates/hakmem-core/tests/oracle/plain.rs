//! Blocks of the front end for C, without an oracle's books.

use hakmem_core::c;

/// A block, which there must be.
pub fn take(n: usize) -> *mut u8 {
    // SAFETY: any size may be asked for.
    let p = unsafe { c::malloc(n) };
    assert!(!p.is_null());
    p
}

/// The tests free what they took, once.
pub fn free(p: *mut u8) {
    // SAFETY: as above.
    unsafe { c::free(p) }
}

/// A live block with another size, which is not 0.
pub fn resize(p: *mut u8, n: usize) -> *mut u8 {
    // SAFETY: as above.
    let to = unsafe { c::realloc(p, n) };
    assert!(!to.is_null());
    to
}
