//! hakmem: the core of the allocator.
#![no_std]

use core::alloc::{GlobalAlloc, Layout};

/// The allocator, as a `#[global_allocator]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hakmem;

impl Hakmem {
    /// Makes the allocator; all of its state is in the process, none in this value.
    pub const fn new() -> Self {
        Self
    }
}

// SAFETY: libc's malloc family meets the contract; scaffolding until the core is in place.
unsafe impl GlobalAlloc for Hakmem {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: align is a power of two.
        unsafe { c::memalign(layout.align(), layout.size()) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, _layout: Layout) {
        // SAFETY: from alloc.
        unsafe { c::free(ptr) }
    }
}

/// The door for the C library: untyped calls, every block aligned to 16.
pub mod c {
    #![allow(clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]
    /// `malloc`: NULL with errno ENOMEM when there is no memory.
    #[inline(always)]
    pub unsafe fn malloc(size: usize) -> *mut u8 {
        unsafe { libc::malloc(size).cast() }
    }
    /// `calloc` after the multiplication.
    pub unsafe fn zeroed(size: usize) -> *mut u8 {
        unsafe { libc::calloc(1, size).cast() }
    }
    /// `free`; NULL is ignored; errno is left alone.
    #[inline(always)]
    pub unsafe fn free(p: *mut u8) {
        unsafe { libc::free(p.cast()) }
    }
    /// `realloc` for a non-NULL `p` and a size above 0 (also for foreign pointers).
    pub unsafe fn realloc(p: *mut u8, size: usize) -> *mut u8 {
        unsafe { libc::realloc(p.cast(), size).cast() }
    }
    /// A block aligned to `align`, a power of two. NULL with errno ENOMEM when there is no memory.
    pub unsafe fn memalign(align: usize, size: usize) -> *mut u8 {
        unsafe { libc::memalign(align, size).cast() }
    }
    /// Bytes of the block at `p` that the caller may use; 0 for NULL and for foreign pointers.
    pub unsafe fn usable_size(p: *mut u8) -> usize {
        unsafe { libc::malloc_usable_size(p.cast()) }
    }
    /// Gives all free memory back to the system now; true if anything was given back.
    pub fn trim() -> bool {
        false
    }
    /// What to call for pointers outside every arena (the next allocator in link order). All three or none.
    #[derive(Clone, Copy)]
    pub struct Next {
        /// Its `free`.
        pub free: unsafe extern "C" fn(*mut u8),
        /// Its `realloc`.
        pub realloc: unsafe extern "C" fn(*mut u8, usize) -> *mut u8,
        /// Its `malloc_usable_size`.
        pub usable_size: unsafe extern "C" fn(*mut u8) -> usize,
    }
    /// Registers the function that finds the next allocator. Called at most once, on the first foreign pointer, from
    /// a slow path without locks held; it may allocate.
    pub fn on_foreign(_find: fn() -> Option<Next>) {}
    /// Reads the `HAKMEM_…` options from a NULL-terminated environment block.
    pub unsafe fn configure(_envp: *const *const core::ffi::c_char) {}
}

/// Counters, read without allocating.
pub mod stats {
    /// One kind of system call.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Syscall {
        /// Its name, as in strace.
        pub name: &'static str,
        /// Times called.
        pub calls: u64,
        /// Times it failed.
        pub failures: u64,
        /// Nanoseconds inside; 0 unless `HAKMEM_TIMING=1`.
        pub nanos: u64,
    }
    /// Kinds of system calls that are counted.
    pub const SYSCALLS: usize = 8;
    /// Totals of the process.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Stats {
        /// Blocks handed out, exact for threads at rest.
        pub allocations: u64,
        /// Blocks that came back; lags behind by what still sits in unpublished lists.
        pub frees: u64,
        /// Bytes in blocks that are out, an upper bound: frees are seen where lists change hands.
        pub live_bytes: u64,
        /// The highest `live_bytes` was.
        pub peak_live_bytes: u64,
        /// Address space reserved.
        pub reserved_bytes: u64,
        /// Bytes made accessible.
        pub committed_bytes: u64,
        /// Free bytes that the system has not got back yet.
        pub dirty_bytes: u64,
        /// Bytes given back so far, in total.
        pub purged_bytes: u64,
        /// Frees of pointers that are not ours.
        pub foreign_frees: u64,
        /// Thread heaps ever made.
        pub heaps: u64,
        /// System calls by kind; an unused slot has an empty name.
        pub syscalls: [Syscall; SYSCALLS],
    }
    /// Takes a snapshot. O(heaps × classes).
    pub fn process() -> Stats {
        Stats::default()
    }
}
