//! The crate dlmalloc, for WebAssembly without a system.
//!
//! Rules
//! 1. A thread that uses `HEAP` holds `TAKEN`. Programs without threads find it free each time.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use dlmalloc::Dlmalloc;

/// dlmalloc's own: two words.
pub const MIN_ALIGN: usize = 2 * size_of::<usize>();

struct Heap(UnsafeCell<Dlmalloc>);
// SAFETY: one thread at a time uses the heap (rule 1).
unsafe impl Sync for Heap {}

static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new()));
static TAKEN: AtomicBool = AtomicBool::new(false);

fn with_heap<R>(f: impl FnOnce(&mut Dlmalloc) -> R) -> R {
    // Acquire: this thread sees what the last holder wrote. The system's wait would be no better:
    // the main thread of a browser must not wait.
    while TAKEN.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
        core::hint::spin_loop();
    }
    // SAFETY: this thread holds `TAKEN` (rule 1). `f` is one call of dlmalloc, which calls nothing
    // of this module, so there is no second reference.
    let result = f(unsafe { &mut *HEAP.0.get() });
    // Release: the next holder sees what this one wrote.
    TAKEN.store(false, Release);
    result
}

pub fn allocate(layout: Layout) -> *mut u8 {
    // SAFETY: the alignment of a layout is a power of two.
    with_heap(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
}

pub fn zeroed(layout: Layout) -> *mut u8 {
    // SAFETY: the alignment of a layout is a power of two.
    with_heap(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
}

/// # Safety
/// `ptr` is live, from this file, and was allocated with `layout`.
pub unsafe fn free(ptr: *mut u8, layout: Layout) {
    // SAFETY: the block is live and of `HEAP`, as the caller promises, and has this size and
    // alignment.
    with_heap(|heap| unsafe { heap.free(ptr, layout.size(), layout.align()) })
}

/// # Safety
/// `ptr` is live, from this file, and was allocated with `layout`.
pub unsafe fn resize(ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    // SAFETY: the block is live and of `HEAP`, as the caller promises, and has this size and
    // alignment. dlmalloc keeps the alignment.
    with_heap(|heap| unsafe { heap.realloc(ptr, layout.size(), layout.align(), new_size) })
}

/// False: there are no files.
pub fn write(_: c_int, _: &[u8]) -> bool {
    false
}
