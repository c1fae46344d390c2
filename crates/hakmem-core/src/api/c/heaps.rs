//! Program heaps for the C library. A heap has a handle, which tells a heap that was deleted from
//! the next one in its place (`program::registry` rule 3).
//!
//! A NULL handle is a heap that could not be made: allocations from it fail. A handle of a deleted
//! heap ends the process with a line that says so.

use crate::api::front::Clear;
use crate::api::heaps::{Heap, call};
use crate::backend::check;
use crate::harden::tag::Origin;
use crate::program::{ProgramHeap, Refusal, registry};
use crate::thread::scope;
use crate::types::program_heap::ProgramHeap as Figures;
use crate::{os, purge};
use core::ptr::{NonNull, null_mut};

/// The heap of a handle. None: it is NULL.
///
/// # Safety
/// `handle` is NULL or from [`new`].
unsafe fn heap_of(handle: *mut u8) -> Option<&'static ProgramHeap> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is not NULL, so the caller says that it is from `new`, and `by_handle`
    // takes such a handle at any time, also of a heap that was deleted.
    Some(unsafe { registry::by_handle(handle) }.unwrap_or_else(|| check::deleted_heap(handle)))
}

/// Makes a heap. NULL: there is no memory for one.
pub fn new(name: &str, limit: Option<usize>) -> *mut u8 {
    registry::make(name, limit).map_or_else(no_memory, registry::handle)
}

/// The handle of a heap of Rust, for tests.
#[doc(hidden)]
pub fn handle_of(heap: &Heap) -> *mut u8 {
    heap.raw().map_or(null_mut(), registry::handle)
}

/// Allocates `size` bytes at a multiple of `align`, a power of two; `zeroed` makes the whole block
/// zero. Returns NULL with errno ENOMEM if the limit or the system does not allow it.
///
/// # Safety
/// `handle` is NULL or from [`new`].
pub unsafe fn allocate(handle: *mut u8, align: usize, size: usize, zeroed: bool) -> *mut u8 {
    // SAFETY: the caller says that the handle is NULL or from `new`, and `heap_of` asks for no
    // more.
    let Some(heap) = (unsafe { heap_of(handle) }) else { return no_memory() };
    let clear = if zeroed { Clear::Block } else { Clear::Nothing };
    or_no_memory(call::allocate(heap, size, align.max(16), clear, Origin::C))
}

/// Ends the process if the heap was deleted.
///
/// # Safety
/// `handle` is NULL or from [`new`].
pub unsafe fn check(handle: *mut u8) {
    // SAFETY: the caller says that the handle is NULL or from `new`, and `heap_of` asks for no
    // more.
    unsafe { heap_of(handle) };
}

/// `realloc` within the heap, for a `p` that is not NULL and a `size` that is not 0.
///
/// # Safety
/// `handle` is NULL or from [`new`]. `p` is a live block of it, and the caller's.
pub unsafe fn reallocate(handle: *mut u8, p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller says that the handle is NULL or from `new`, and that `p` is a live block
    // of this heap, which nobody else uses. The block comes from a function of C, as the origin
    // says.
    unsafe {
        let Some(heap) = heap_of(handle) else { return no_memory() };
        or_no_memory(call::reallocate(heap, p, None, size, 16, Origin::C))
    }
}

/// Frees a block of the heap. Ignores NULL.
///
/// # Safety
/// `handle` is NULL or from [`new`]. If `p` is a block of it, it is live, and the caller's to free.
pub unsafe fn free(handle: *mut u8, p: *mut u8) {
    // SAFETY: the caller says that the handle is NULL or from `new`, and gives up `p` if it is a
    // block of this heap. `call::free` ends the process for any other block.
    unsafe {
        if let Some(heap) = heap_of(handle)
            && !p.is_null()
        {
            call::free(heap, p, Origin::C, None);
        }
    }
}

/// Gives back all blocks that were allocated from the heap. False: it is NULL or lost.
///
/// # Safety
/// `handle` is NULL or from [`new`]. Nobody uses a block of the heap any more, but those of scopes.
pub unsafe fn reset(handle: *mut u8) -> bool {
    // SAFETY: the caller says that the handle is NULL or from `new`, and `heap_of` asks for no
    // more.
    unsafe { heap_of(handle) }.is_some_and(|heap| {
        // SAFETY: the caller says that nobody uses a block of the heap any more but those of
        // scopes, which `reset` leaves alone.
        let done = unsafe { heap.reset() }.is_ok();
        tick(heap);
        done
    })
}

/// Deletes the heap. False: a thread is in a scope of it, and nothing was done.
///
/// # Safety
/// As [`reset`], and nobody uses the heap any more.
pub unsafe fn delete(handle: *mut u8) -> bool {
    // SAFETY: the caller says that the handle is NULL or from `new`, and `heap_of` asks for no
    // more.
    let Some(heap) = (unsafe { heap_of(handle) }) else { return true };
    // SAFETY: the caller says that nobody uses the heap or an own block of it any more.
    let done = unsafe { heap.delete() };
    tick(heap);
    done
}

/// Enters a scope of the heap. False: there is no memory for it, or the thread is ending.
///
/// # Safety
/// `handle` is NULL or from [`new`].
pub unsafe fn enter(handle: *mut u8) -> bool {
    // SAFETY: the caller says that the handle is NULL or from `new`, and `heap_of` asks for no
    // more.
    unsafe { heap_of(handle) }.is_some_and(|heap| scope::enter(heap).is_ok())
}

/// Leaves the scope that the thread entered last. False: it is none of this heap.
///
/// # Safety
/// `handle` is NULL or from [`new`].
pub unsafe fn leave(handle: *mut u8) -> bool {
    // SAFETY: the caller says that the handle is NULL or from `new`, and `heap_of` asks for no
    // more.
    unsafe { heap_of(handle) }.is_some_and(|heap| {
        let done = scope::leave(heap);
        tick(heap);
        done
    })
}

/// Sets the limit of live bytes.
///
/// # Safety
/// `handle` is NULL or from [`new`].
pub unsafe fn set_limit(handle: *mut u8, bytes: Option<usize>) {
    // SAFETY: the caller says that the handle is NULL or from `new`, and `heap_of` asks for no
    // more.
    if let Some(heap) = unsafe { heap_of(handle) } {
        heap.set_limit(bytes);
    }
}

/// Reserves memory: see [`Heap::reserve`]. False: not all of it.
///
/// # Safety
/// `handle` is NULL or from [`new`].
pub unsafe fn reserve(handle: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller says that the handle is NULL or from `new`, and `heap_of` asks for no
    // more.
    unsafe { heap_of(handle) }.is_some_and(|heap| call::reserve(heap, bytes).is_ok())
}

/// The figures of the heap.
///
/// # Safety
/// `handle` is NULL or from [`new`].
pub unsafe fn figures(handle: *mut u8) -> Figures {
    // SAFETY: the caller says that the handle is NULL or from `new`, and `heap_of` asks for no
    // more.
    unsafe { heap_of(handle) }.map_or_else(Figures::default, ProgramHeap::read)
}

fn tick(heap: &ProgramHeap) {
    if heap.take_released() {
        purge::tick();
    }
}

fn or_no_memory(made: Result<NonNull<u8>, Refusal>) -> *mut u8 {
    made.map_or_else(|_| no_memory(), NonNull::as_ptr)
}

fn no_memory() -> *mut u8 {
    os::set_enomem();
    null_mut()
}
