//! The hardened build's way around the front end: it writes what `harden` adds to a block when the
//! block becomes live, and checks it when the block is freed.
//!
//! ```text
//! alloc:  a block for the request and its tag → is it zero? → write tag and pad
//! free:   does a block start here? → tag → pad → the tag of the block before → wipe → quarantine
//! ```
//!
//! Rules
//! 1. A caller of `free`, `realloc` or `usable_size` may be wrong about the pointer. So every word
//!    of the block is checked before it is used, and the metadata says what may be read.
//! 2. A block that did not pass is left alone for ever if the option `ON_ERROR` lets the program go
//!    on.
//! 3. A block in a page with an owner is zero when it comes from the front end, but for its link,
//!    and the mark of a fresh block above `SMALL_MAX`. Samples of the profile are wiped when they
//!    are allocated. Larger blocks are not.

mod alloc;
mod at_exit;
mod checked;
mod fast;
mod free;
mod realloc;
#[cfg(all(test, feature = "hardened", not(any(loom, shuttle, miri))))]
mod tests;
mod told;

use crate::backend::check;
use crate::backend::foreign;
use crate::backend::page;
use crate::harden::tag::Origin;
use crate::os;
use core::alloc::Layout;
use core::ptr::null_mut;

pub use alloc::{alloc, prepare, zeroed};
pub use at_exit::check_at_exit;
pub use checked::checked;
pub use free::free;
use realloc::resize;
pub use realloc::{forget_end, realloc};

/// [`alloc`] for a layout of Rust.
pub fn alloc_layout(layout: Layout) -> *mut u8 {
    alloc(layout.size(), layout.align(), Origin::rust(layout.align()))
}

/// [`zeroed`] for a layout of Rust.
pub fn zeroed_layout(layout: Layout) -> *mut u8 {
    zeroed(layout.size(), layout.align(), Origin::rust(layout.align()))
}

/// [`free`] of a block that was allocated with `layout`.
///
/// # Safety
/// The block is live and the caller's to free (rule 1).
pub unsafe fn free_layout(p: *mut u8, layout: Layout) {
    // SAFETY: the caller gives up a live block.
    unsafe { free(p, Origin::rust(layout.align()), Some(layout.size())) }
}

/// [`realloc`] of a block that was allocated with `layout`.
///
/// # Safety
/// The block is live and the caller's (rule 1).
pub unsafe fn realloc_layout(p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let Some(meta) = page::lookup(p) else { check::not_a_block(p, None) };
    // SAFETY: the caller has a live block. If it is wrong, the checks find that.
    unsafe {
        let origin = Origin::rust(layout.align());
        let by = (origin, Some(layout.size()));
        let Some(live) = checked(p, meta, Some(by)) else { return no_memory() };
        resize(p, &live, size, layout.align(), origin)
    }
}

/// The bytes that were asked for with the block at `p`. 0 for a pointer that is no block.
///
/// # Safety
/// `p` is a live block of this or of the next allocator (rule 1).
pub unsafe fn usable_size(p: *mut u8) -> usize {
    let Some(meta) = page::lookup(p) else {
        // SAFETY: `p` is not ours. So it is the next allocator's.
        return unsafe { foreign::usable_size(p) };
    };
    // SAFETY: the caller has a live block. If it is wrong, the checks find that.
    unsafe { checked(p, meta, None).map_or(0, |live| live.size) }
}

fn no_memory() -> *mut u8 {
    os::set_enomem();
    null_mut()
}
