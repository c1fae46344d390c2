//! rpmalloc as a peer, on its bindings. The `rpmalloc` crate above them never starts a thread's
//! heap, without which the library as the bindings build it reads a null pointer, and passes no
//! `realloc` on.

use crate::heap::Subject;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// The alignment of every block.
const NATURAL: usize = 16;

/// rpmalloc, with a heap for each thread that comes: one thread-local load and a branch more than
/// the library's own override of `malloc` costs, which would take the whole process.
#[derive(Debug)]
pub struct RpMalloc;

unsafe extern "C" {
    /// The bindings leave the parameter out.
    fn rpmalloc_thread_finalize(release_caches: c_int);
}

/// Gives the thread's heap back when the thread ends.
struct Tenancy;

impl Drop for Tenancy {
    fn drop(&mut self) {
        READY.set(false);
        // SAFETY: `enter` started this thread's heap; with the flag down, nothing uses it from here
        // on. 1 hands its cached spans to the other threads, as the library does in its own
        // thread-exit hook.
        unsafe { rpmalloc_thread_finalize(1) };
    }
}

thread_local! {
    /// Whether the thread has a heap. Apart from `TENANCY`, so that looking costs no more than a
    /// load.
    static READY: Cell<bool> = const { Cell::new(false) };
    static TENANCY: Tenancy = const { Tenancy };
}

#[inline(always)]
fn ensure_heap() {
    if !READY.get() {
        enter();
    }
}

#[cold]
fn enter() {
    static PROCESS: std::sync::Once = std::sync::Once::new();
    PROCESS.call_once(|| {
        // SAFETY: once for the process, before any other call to the library.
        unsafe { rpmalloc_sys::rpmalloc_initialize() };
    });
    // SAFETY: the process is initialised; a thread that has a heap keeps it.
    unsafe { rpmalloc_sys::rpmalloc_thread_initialize() };
    READY.set(true);
    // A thread that allocates in a destructor that runs later keeps its heap for good.
    let _ = TENANCY.try_with(|_| ());
}

// SAFETY: rpmalloc's blocks are as large and as aligned as asked for, stay put until freed, and may
// be freed by any thread that has a heap, which every call sees to.
unsafe impl GlobalAlloc for RpMalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ensure_heap();
        // SAFETY: the thread has a heap; alignments of layouts are powers of two.
        unsafe {
            if layout.align() <= NATURAL {
                rpmalloc_sys::rpmalloc(layout.size()).cast()
            } else {
                rpmalloc_sys::rpaligned_alloc(layout.align(), layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ensure_heap();
        // SAFETY: the thread has a heap of rpmalloc, and the alignment is a power of two, as a
        // layout has it.
        unsafe {
            if layout.align() <= NATURAL {
                rpmalloc_sys::rpcalloc(1, layout.size()).cast()
            } else {
                rpmalloc_sys::rpaligned_calloc(layout.align(), 1, layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, _: Layout) {
        ensure_heap();
        // SAFETY: the thread has a heap, and the caller passes a block of this allocator.
        unsafe { rpmalloc_sys::rpfree(ptr.cast::<c_void>()) };
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ensure_heap();
        // SAFETY: the block came from this allocator with `layout`, so the call is of the same
        // kind, and the caller gives it up. The thread has a heap of rpmalloc.
        unsafe {
            if layout.align() <= NATURAL {
                rpmalloc_sys::rprealloc(ptr.cast(), new_size).cast()
            } else {
                rpmalloc_sys::rpaligned_realloc(
                    ptr.cast(),
                    layout.align(),
                    new_size,
                    layout.size(),
                    0,
                )
                .cast()
            }
        }
    }
}

impl Subject for RpMalloc {
    #[inline(always)]
    fn subject() -> &'static Self {
        static SUBJECT: RpMalloc = RpMalloc;
        &SUBJECT
    }
}

/// That of the bindings, whose suffix is the library's commit: the library cannot tell.
pub fn version() -> String {
    format!("crate {}", env!("RPMALLOC_CRATE_VERSION"))
}
