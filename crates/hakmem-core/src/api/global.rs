//! `Hakmem`, the allocator of a Rust program.
//!
//! Rust tells size and alignment with every call. Both are used: sizes are classed at compile time where the layout is
//! constant, blocks of 8, 24, 40 and 56 bytes serve alignments up to 8, and deallocation of a classed size skips what
//! only foreign or large pointers need.

use crate::api::front::{self, Clear};
use crate::base::size_class::{self, MEDIUM_MAX};
use crate::policy::options::{self, Options};
use core::alloc::{GlobalAlloc, Layout};

/// The allocator, to be made the `#[global_allocator]`.
///
/// ```
/// use hakmem_core::Hakmem;
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() { assert_eq!(vec![1, 2, 3].len(), 3); }
/// ```
///
/// All state is in the process: every value of this type is the same allocator.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hakmem;

impl Hakmem {
    /// The allocator. O(1), no memory is touched.
    ///
    /// ```
    /// use hakmem_core::Hakmem;
    ///
    /// #[global_allocator]
    /// static ALLOCATOR: Hakmem = Hakmem::new();
    /// # fn main() { drop(vec![0; 100]); }
    /// ```
    pub const fn new() -> Self {
        Self
    }

    /// The allocator with options of the program's own, which the environment may overrule. A value that is out of its range
    /// does not compile in a `static`.
    ///
    /// ```
    /// use hakmem_core::{Configured, Hakmem, options::Options};
    ///
    /// #[global_allocator]
    /// static ALLOCATOR: Configured = Hakmem::with(Options { decay_ms: 1000, ..Options::DEFAULT });
    ///
    /// # fn main() { assert_eq!(hakmem_core::options::get("DECAY_MS").unwrap().to_string(), "1000"); }
    /// ```
    pub const fn with(options: Options) -> Configured {
        options.check();
        Configured(options)
    }
}

/// [`Hakmem`], with options that are set at its first slow path: its fast paths are the same.
///
/// They are the process's, like all else. Of two such values with different options, those count that are used first.
///
/// ```
/// use hakmem_core::{Configured, Hakmem, options::Options};
///
/// #[global_allocator]
/// static ALLOCATOR: Configured = Hakmem::with(Options { huge_cache_mib: 8, ..Options::DEFAULT });
///
/// # fn main() {
/// assert_eq!(hakmem_core::options::get("HUGE_CACHE_MIB").unwrap().to_string(), "8");
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Configured(Options);

// SAFETY: as for `Hakmem`, whose functions these are.
unsafe impl GlobalAlloc for Configured {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class_of(layout) {
            Some(class) => front::alloc_class_or(class, |class| {
                options::apply(&self.0);
                front::alloc_class_slow(class)
            }),
            None => {
                options::apply(&self.0);
                alloc_classless(layout, Clear::Nothing)
            }
        }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { Hakmem.dealloc(ptr, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        options::apply(&self.0);
        // SAFETY: passed on.
        unsafe { Hakmem.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { Hakmem.realloc(ptr, layout, new_size) }
    }
}

/// The class of a layout; None: too large, or aligned beyond 16.
#[inline(always)]
fn class_of(layout: Layout) -> Option<usize> {
    if layout.size() > MEDIUM_MAX || layout.align() > 16 {
        return None;
    }
    Some(if layout.align() <= 8 { size_class::of8(layout.size()) } else { size_class::of16(layout.size()) })
}

/// The two reasons for which a layout has no class.
#[cold]
#[inline(never)]
fn alloc_classless(layout: Layout, clear: Clear) -> *mut u8 {
    // All larger blocks start at multiples of 64 KiB.
    if layout.size() > MEDIUM_MAX {
        return front::alloc_big(layout.size(), layout.align(), clear);
    }
    front::alloc_aligned(layout.size(), layout.align().max(16), clear)
}

// SAFETY: blocks are live from `alloc` to `dealloc` and overlap no other; class sizes and page starts give the alignment
// (`size_class`); nothing unwinds.
unsafe impl GlobalAlloc for Hakmem {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class_of(layout) {
            Some(class) => front::alloc_class(class),
            None => alloc_classless(layout, Clear::Nothing),
        }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, ptr: *mut u8, _layout: Layout) {
        // SAFETY: the caller's promise: `ptr` is live, and from this allocator.
        unsafe { front::free_known(ptr) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match class_of(layout) {
            Some(class) => front::zeroed_class(class, layout.size()),
            None => alloc_classless(layout, Clear::Request),
        }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise: the size does not overflow when rounded up to the alignment.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if let (Some(class), Some(old)) = (class_of(new), class_of(layout)) {
            if class == old {
                return ptr;
            }
            if class > old {
                // SAFETY: passed on.
                return unsafe { grow(ptr, layout.size(), class) };
            }
        }
        // SAFETY: passed on.
        unsafe { realloc_slow(ptr, layout, new) }
    }
}

/// Moves a block to one of `class`, which is larger. What it held before may be enough, if it was shrunk where it was; to
/// look that up would cost all others more than the copy costs such a one.
///
/// # Safety
/// `ptr` is live, holds `size` bytes, and is the caller's.
#[inline(never)]
unsafe fn grow(ptr: *mut u8, size: usize, class: usize) -> *mut u8 {
    let to = front::alloc_class(class);
    if !to.is_null() {
        // SAFETY: the caller's promises; a block of a larger class holds what is copied.
        unsafe { front::move_block(ptr, size, to, size) };
    }
    to
}

/// Resizes a block that leaves its class.
///
/// # Safety
/// `ptr` is live, was allocated with `layout`'s alignment, and is the caller's.
#[cold]
#[inline(never)]
unsafe fn realloc_slow(ptr: *mut u8, layout: Layout, new: Layout) -> *mut u8 {
    // SAFETY: the caller's promises; both blocks hold what is copied. All resizing in place keeps the start, and moved
    // huge blocks start at multiples of 2 MiB: larger alignments are copied.
    unsafe {
        let Some(held) = front::size_of_block(ptr) else { return core::ptr::null_mut() };
        if new.align() <= crate::backend::arena::SEGMENT
            && let Some(at) = front::resize(ptr, held, new.size())
        {
            return at;
        }
        let to = Hakmem.alloc(new);
        if to.is_null() {
            // A block that is to shrink can stay.
            return if new.size() <= held { ptr } else { to };
        }
        front::move_grown(ptr, layout.size(), to, new.size());
        to
    }
}
