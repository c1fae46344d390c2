//! The front end for the C library: sizes only, every block aligned to 16.

use crate::api::front;
use crate::backend::{arena, check, foreign, stray};
use crate::policy::options;
use crate::{os, policy, purge, thread};
use core::ffi::c_char;
use core::ptr::null_mut;

pub use crate::backend::foreign::{Next, on_foreign};

/// `malloc`. NULL with errno ENOMEM: there is no memory, or `size` is above PTRDIFF_MAX. Size 0 gets a block of its own.
///
/// # Safety
/// None beyond what the returned memory may be used for; unsafe to match the rest of the front end.
#[inline(always)]
pub unsafe fn malloc(size: usize) -> *mut u8 {
    front::alloc16(size)
}

/// [`malloc`]'s fast path, with another slow path behind it (which may call `malloc`).
///
/// # Safety
/// As [`malloc`].
#[inline(always)]
pub unsafe fn malloc_or(size: usize, slow: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    front::alloc16_or(size, slow)
}

/// `calloc`, after the multiplication. All that [`usable_size`] reports is zero.
///
/// # Safety
/// As [`malloc`].
pub unsafe fn zeroed(size: usize) -> *mut u8 {
    front::alloc16_zeroed(size)
}

/// `free`: NULL is ignored, errno left alone, a pointer that is not ours passed on.
///
/// # Safety
/// If `p` is ours, it is live and the caller's to free.
#[inline(always)]
pub unsafe fn free(p: *mut u8) {
    // SAFETY: passed on.
    unsafe { front::free16(p) }
}

/// `realloc` for a `p` that is not NULL and a `size` that is not 0. NULL with errno ENOMEM: nothing has changed.
///
/// # Safety
/// `p` is live and the caller's; it may be the next allocator's.
#[inline(always)]
pub unsafe fn realloc(p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: passed on. Whatever takes a call is behind one, so that a block that stays where it is saves no registers.
    unsafe {
        match front::size_of_small(p) {
            Some(old) if front::fits(old, size) => p,
            Some(old) => realloc_by_copy(p, old, size),
            None => realloc_other(p, size),
        }
    }
}

/// [`realloc`] of a block of no page of the first arena: larger, sampled, or not ours.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn realloc_other(p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe {
        let Some(old) = front::size_of_block(p) else {
            return foreign::realloc(p, size).unwrap_or_else(no_memory);
        };
        front::resize(p, old, size).unwrap_or_else(|| realloc_by_copy(p, old, size))
    }
}

/// [`realloc`] of a block that is ours and holds `old` bytes, to another one.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn realloc_by_copy(p: *mut u8, old: usize, size: usize) -> *mut u8 {
    // Freed as if it were one, it would come to lie on a list.
    check::check_any(p);
    let to = front::alloc16(size);
    if to.is_null() {
        // A block that is to shrink can stay.
        return if size <= old { p } else { to };
    }
    // SAFETY: passed on; both blocks hold what is copied.
    unsafe { front::move_grown(p, old, to, size) };
    to
}

fn no_memory() -> *mut u8 {
    crate::os::set_enomem();
    null_mut()
}

/// A block aligned to `align`, a power of two. NULL with errno ENOMEM: there is no memory.
///
/// # Safety
/// As [`malloc`].
pub unsafe fn memalign(align: usize, size: usize) -> *mut u8 {
    if align <= 16 { front::alloc16(size) } else { front::alloc_aligned(size, align, front::Clear::Nothing) }
}

/// Bytes of the block at `p` that the caller may use; 0 for NULL. The next allocator is asked for pointers of its own.
///
/// # Safety
/// `p` is NULL or live.
pub unsafe fn usable_size(p: *mut u8) -> usize {
    if p.is_null() {
        return 0;
    }
    // SAFETY: passed on.
    unsafe { front::size_of_block(p).unwrap_or_else(|| foreign::usable_size(p)) }
}

/// Lets errors be seen that need to know which libraries are loaded: frees of their variables. `next` is code of the next allocator.
/// To be called in the search that [`on_foreign`] registers; may allocate.
pub fn find_objects(next: usize) {
    stray::find_objects(next);
}

/// What the next allocator has to say of a pointer that was passed to it while it has no memory at all: the pointer can be nobody's.
/// Ends the process if it is seen to be an error of the program.
pub fn nobodys(p: *mut u8) {
    stray::judge_unowned(p);
}

/// Gives all free memory back to the system now; true if there was any. O(all of it).
pub fn trim() -> bool {
    if let thread::ThreadState::Live(heap) = thread::state() {
        heap.collect();
    }
    purge::all() > 0
}

/// To be called before the process's address space is limited (RLIMIT_AS) to `bytes`, less than it is now: gives back
/// what the reservation has beyond what is in use, so that the program can still map things. O(all memory in use).
pub fn fit_address_limit(bytes: usize) {
    // In a signal handler that interrupted us, the limit has to do without.
    if !thread::holds_a_lock() {
        purge::all();
        arena::fit_limit(bytes);
    }
}

/// Bytes that the process's address space is limited to; usize::MAX if it is not.
pub fn address_limit() -> usize {
    os::address_limit()
}

/// Bytes between samples of the heap profile, as the options have it.
pub fn profile_interval() -> u64 {
    u64::from(policy::PROFILE_INTERVAL.get())
}

/// Reads the `HAKMEM_…` options from a NULL-terminated environment block, unless the environment was read: where the C
/// library passes it to constructors, as glibc does, the crate has one that does it.
///
/// # Safety
/// `envp` is NULL or such a block.
pub unsafe fn start(envp: *const *const c_char) {
    // SAFETY: passed on.
    unsafe { options::read_once(envp) };
}

/// Reads options from such a block, whatever was read before.
///
/// # Safety
/// `envp` is NULL or such a block.
pub unsafe fn configure(envp: *const *const c_char) {
    // SAFETY: passed on.
    unsafe { options::read(envp) };
}

/// Says whether the process is about to forbid itself system calls, or has: what is only nice to know is not asked from then
/// on. To be said before the filter is there, and taken back if it could not be made.
pub fn set_filtered(filtered: bool) {
    os::set_filtered(filtered);
}

/// What [`set_filtered`] said last.
pub fn is_filtered() -> bool {
    os::is_filtered()
}

/// False in a program with rights that its user does not have: what the environment says is its user's word.
pub fn trusts_environment() -> bool {
    !os::is_secure()
}

/// True in a child of vfork, and in one made by a raw system call, which share or copy what the process knows of itself.
pub fn in_borrowed_process() -> bool {
    os::in_borrowed_process()
}

/// Ends the thread that gives idle memory back, and keeps it away until [`release_scavenger`]: the process is about to
/// change its rights or its namespaces, which that thread would not follow. Calls nest. O(1), and the end of the thread.
pub fn hold_scavenger() {
    purge::hold(thread::holds_a_lock());
}

/// Ends one [`hold_scavenger`].
pub fn release_scavenger() {
    purge::release();
}

/// Ends that thread for good: the process is about to forbid itself system calls.
pub fn forbid_scavenger() {
    purge::forbid(thread::holds_a_lock());
}

/// Promises that [`hold_scavenger`] is called before each change of the process's rights and namespaces. Without the promise, a
/// process that never had a second thread gets none for its idle memory.
pub fn announce_rights() {
    purge::announce_rights();
}
