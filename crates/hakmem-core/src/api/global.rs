//! `Hakmem`, the allocator of a Rust program.
//!
//! Rust passes size and alignment with every call, and this front end uses both:
//! - A constant layout gets its class at compile time.
//! - Blocks of 8, 24, 40 and 56 bytes serve alignments up to 8. On musl no request of 56 bytes gets
//!   one: it may be a panic's exception, which LLVM's unwinder takes as aligned to 16, while Rust
//!   before <https://github.com/rust-lang/rust/pull/161368> asks for 8.
//! - Deallocation of a size with a class skips the checks for foreign and large pointers.
//!
//! With debug assertions, the functions of `GlobalAlloc` are not inlined into the program. An
//! inlined one would have the optimisation of the program's crate, even where the profile asks for
//! another of this crate.

use crate::api::front::{self, Clear};
use crate::api::hardened;
use crate::base::size_class::{self, FIRST_LONG, MEDIUM_MAX, SMALL_MAX};
use crate::guard;
use crate::harden;
use crate::policy::options;
use crate::types::{Configured, Hakmem};
use core::alloc::{GlobalAlloc, Layout};

// SAFETY: every block comes from the functions of `Hakmem` and goes back to them. `options::apply`
// allocates nothing and does not unwind.
unsafe impl GlobalAlloc for Configured {
    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if harden::ON {
            options::apply(&self.0);
            return hardened::alloc_layout(layout);
        }
        match small_class_of(layout) {
            Some(class) => front::alloc_class_or(class, |class| {
                options::apply(&self.0);
                front::alloc_class_slow(class)
            }),
            None => {
                options::apply(&self.0);
                alloc_unlisted(layout)
            }
        }
    }

    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `ptr` is live and was allocated with `layout`. All
        // blocks of `Configured` are those of `Hakmem`.
        unsafe { Hakmem.dealloc(ptr, layout) }
    }

    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        options::apply(&self.0);
        // SAFETY: the caller promises a layout that `alloc_zeroed` allows.
        unsafe { Hakmem.alloc_zeroed(layout) }
    }

    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline)]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `ptr` is live, was allocated with `layout`, and that
        // `new_size` is allowed for its alignment.
        unsafe { Hakmem.realloc(ptr, layout, new_size) }
    }
}

/// The class of a layout. None: it is too large, or aligned beyond 16.
#[inline(always)]
fn class_of(layout: Layout) -> Option<usize> {
    if layout.size() > MEDIUM_MAX || layout.align() > 16 {
        return None;
    }
    let may_be_exception = cfg!(target_env = "musl") && layout.size() == 56;
    Some(if layout.align() <= 8 && !may_be_exception {
        size_class::of8(layout.size())
    } else {
        size_class::of16(layout.size())
    })
}

/// [`class_of`] for layouts whose blocks the fast path pops. None: [`alloc_unlisted`] allocates
/// them.
#[inline(always)]
fn small_class_of(layout: Layout) -> Option<usize> {
    if layout.size() > SMALL_MAX { None } else { class_of(layout) }
}

/// Allocates a layout of more than SMALL_MAX bytes, or one that is aligned beyond 16.
#[cold]
#[inline(never)]
fn alloc_unlisted(layout: Layout) -> *mut u8 {
    if layout.align() <= 16 {
        return front::alloc16_unlisted(layout.size());
    }
    alloc_classless(layout, Clear::Nothing)
}

/// Allocates a layout that has no class, because of its size or of its alignment.
#[cold]
#[inline(never)]
fn alloc_classless(layout: Layout, clear: Clear) -> *mut u8 {
    // All blocks above 64 KiB start at multiples of 64 KiB.
    if layout.size() > MEDIUM_MAX {
        return front::alloc_big(layout.size(), layout.align(), clear);
    }
    front::alloc_aligned(layout.size(), layout.align().max(16), clear)
}

// SAFETY: a block is live from `alloc` to `dealloc` and overlaps no other live block. The sizes of
// classes and the starts of pages give the alignment (`size_class`). No function unwinds.
unsafe impl GlobalAlloc for Hakmem {
    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if harden::ON {
            return hardened::alloc_layout(layout);
        }
        match small_class_of(layout) {
            Some(class) => front::alloc_class_or(class, |class| front::alloc_class_slow(class)),
            None => alloc_unlisted(layout),
        }
    }

    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `ptr` is live, from this allocator, and was allocated
        // with `layout`.
        unsafe {
            if harden::ON { hardened::free_layout(ptr, layout) } else { front::free_known(ptr) }
        }
    }

    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if harden::ON {
            return hardened::zeroed_layout(layout);
        }
        match class_of(layout) {
            // SAFETY: `class_of` gives a class that the layout fits in.
            Some(class) => unsafe { front::zeroed_class(class, layout.size()) },
            None => alloc_classless(layout, Clear::Request),
        }
    }

    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline)]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if harden::ON {
            // SAFETY: the caller promises that `ptr` is live and was allocated with `layout`.
            return unsafe { hardened::realloc_layout(ptr, layout, new_size) };
        }
        // SAFETY: the caller promises that the new size does not overflow when it is rounded up to
        // the alignment, which is a valid one.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if let (Some(class), Some(old)) = (class_of(new), class_of(layout)) {
            // A guarded block above SMALL_MAX has the bytes of its request alone.
            if class == old && (class < FIRST_LONG || !guard::has(ptr)) {
                return ptr;
            }
            if class > old {
                // SAFETY: the caller promises that `ptr` is live and was allocated with `layout`,
                // so it holds `layout.size()` bytes.
                return unsafe { grow(ptr, layout.size(), class) };
            }
        }
        // SAFETY: the caller promises that `ptr` is live and was allocated with `layout`.
        unsafe { realloc_slow(ptr, layout, new) }
    }
}

/// Moves a block to a block of `class`, which is larger than the class of `size`. The old block may
/// be large enough if an earlier call shrank it in place. A check for that would cost all other
/// calls more than the copy costs this one.
///
/// # Safety
/// `ptr` is live, holds `size` bytes, and is the caller's.
#[inline(never)]
unsafe fn grow(ptr: *mut u8, size: usize, class: usize) -> *mut u8 {
    let to = front::alloc_class(class);
    if !to.is_null() {
        // SAFETY: the caller promises that `ptr` is live, holds `size` bytes and is the caller's.
        // `to` is a new block of a larger class.
        unsafe { front::move_block(ptr, size, to, size) };
    }
    to
}

/// Resizes a block if its old or new layout has no class, or if its class gets smaller.
///
/// # Safety
/// `ptr` is live, was allocated with `layout`, and is the caller's.
#[cold]
#[inline(never)]
unsafe fn realloc_slow(ptr: *mut u8, layout: Layout, new: Layout) -> *mut u8 {
    // SAFETY: the caller promises that `ptr` is live and the caller's. `to` is a new block, and the
    // copy is no longer than the smaller block.
    unsafe {
        let Some(held) = front::size_of_block(ptr) else { return core::ptr::null_mut() };
        if let Some(at) = front::resize(ptr, held, new.size(), new.align()) {
            return at;
        }
        let to = Hakmem.alloc(new);
        if to.is_null() {
            // A block that is to shrink can stay.
            return match new.size() {
                size if size <= held => ptr,
                size => front::resize_at_last(ptr, held, size, new.align()),
            };
        }
        front::move_grown(ptr, layout.size(), to, new.size());
        to
    }
}
