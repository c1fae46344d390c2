//! The front end for the C library: its functions take sizes, and align every block to 16.

use crate::api::{front, hardened};
use crate::backend::{arena, check, foreign, nothing, stray};
use crate::harden::{self, tag::Origin};
use crate::heap::reclaim::parked;
use crate::policy::environment;
use crate::{os, policy, purge, thread};
use core::ffi::c_char;
use core::ptr::null_mut;

pub mod heaps;

pub use crate::backend::foreign::{Next, on_foreign};

/// `malloc`. Returns NULL with errno ENOMEM if there is no memory, or if `size` is above
/// PTRDIFF_MAX. A request of size 0 gets a block of its own.
///
/// # Safety
/// The caller has to keep no promise. The function is unsafe to match the rest of this front end.
#[inline(always)]
pub unsafe fn malloc(size: usize) -> *mut u8 {
    if harden::ON { hardened::alloc(size, 16, Origin::C) } else { front::alloc16(size) }
}

/// `calloc`, after the multiplication. All bytes that [`usable_size`] reports are zero.
///
/// # Safety
/// The caller has to keep no promise. The function is unsafe to match the rest of this front end.
#[inline(always)]
pub unsafe fn zeroed(size: usize) -> *mut u8 {
    if harden::ON { hardened::zeroed(size, 16, Origin::C) } else { front::alloc16_zeroed(size) }
}

/// `free`. It ignores NULL, leaves errno alone, and gives foreign pointers to the next allocator.
///
/// # Safety
/// If `p` is from this allocator, it is live and the caller's to free.
#[inline(always)]
pub unsafe fn free(p: *mut u8) {
    // SAFETY: the caller promises that `p`, if it is from this allocator, is live and the caller's
    // to free.
    unsafe { if harden::ON { hardened::free(p, Origin::C, None) } else { front::free16(p) } }
}

/// C++ `new` or `new[]`, with the caller's own slow path, which may call [`new`].
///
/// # Safety
/// The caller has to keep no promise. The function is unsafe to match the rest of this front end.
#[inline(always)]
pub unsafe fn new_or(size: usize, is_array: bool, slow: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    if harden::ON {
        slow(size)
    } else {
        let _ = is_array;
        front::alloc16_or(size, slow)
    }
}

/// C++ `new` or `new[]` of `size` bytes at a multiple of `align`, a power of two. Returns NULL with
/// errno ENOMEM if there is no memory.
///
/// # Safety
/// The caller has to keep no promise. The function is unsafe to match the rest of this front end.
pub unsafe fn new(size: usize, align: usize, is_array: bool) -> *mut u8 {
    if harden::ON {
        return hardened::alloc(size, align, origin(is_array));
    }
    // SAFETY: the two allow any size and any power of two.
    unsafe { if align <= 16 { malloc(size) } else { memalign(align, size) } }
}

/// C++ `delete` or `delete[]` without a size. The hardened build checks which of the two made it.
///
/// # Safety
/// If `p` is from this allocator, it is live and the caller's to free.
#[inline(always)]
pub unsafe fn delete(p: *mut u8, is_array: bool) {
    // SAFETY: the caller promises that `p`, if it is from this allocator, is live and the caller's
    // to free.
    unsafe { if harden::ON { hardened::free(p, origin(is_array), None) } else { front::free16(p) } }
}

/// C++ `delete` or `delete[]` of a block that was requested with `size` bytes. Only the hardened
/// build checks that: programs with wrong sizes exist, and go on.
///
/// # Safety
/// As [`delete`].
#[inline(always)]
pub unsafe fn delete_sized(p: *mut u8, is_array: bool, size: usize) {
    // SAFETY: the caller promises that `p`, if it is from this allocator, is live and the caller's
    // to free.
    unsafe {
        if harden::ON { hardened::free(p, origin(is_array), Some(size)) } else { front::free16(p) }
    }
}

/// The program has no C++ operators of its own. So from now on the hardened build asks which of C's
/// functions and operators made a block that another one frees. A program may have replaced only
/// some operators, by some that call C's functions, and they may run before the library's start.
pub fn keep_operators_apart() {
    if harden::ON {
        harden::tag::keep_apart();
    }
}

fn origin(is_array: bool) -> Origin {
    if is_array { Origin::ARRAY } else { Origin::NEW }
}

/// C23 `free_sized` and `free_aligned_sized`. The hardened build checks the size.
///
/// # Safety
/// As [`free`].
pub unsafe fn free_sized(p: *mut u8, size: usize) {
    // SAFETY: the caller promises that `p`, if it is from this allocator, is live and the caller's
    // to free.
    unsafe { if harden::ON { hardened::free(p, Origin::C, Some(size)) } else { front::free16(p) } }
}

/// `realloc` for a `p` that is not NULL and a `size` that is not 0. Returns NULL with errno ENOMEM
/// if there is no memory: then nothing has changed.
///
/// # Safety
/// `p` is a live block of this or of the next allocator, and the caller's.
#[inline(always)]
pub unsafe fn realloc(p: *mut u8, size: usize) -> *mut u8 {
    if harden::ON {
        // SAFETY: the caller promises that `p` is live and the caller's, or another allocator's.
        return unsafe { hardened::realloc(p, size) };
    }
    // SAFETY: the caller promises that `p` is live and the caller's. A page of the first arena has
    // `p` if `size_of_small` knows it. The slow cases are calls, so that a block which stays where
    // it is saves no registers.
    unsafe {
        match front::size_of_small(p) {
            Some(old) if front::fits(old, size) => p,
            Some(old) => realloc_by_copy(p, old, size),
            None => realloc_other(p, size),
        }
    }
}

/// [`realloc`] of a block that is in no page of the first arena: it is larger, sampled, in another
/// arena, or foreign.
///
/// # Safety
/// `p` is a live block of this or of the next allocator, and the caller's.
#[cold]
#[inline(never)]
unsafe fn realloc_other(p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller promises that `p` is live and the caller's. If `size_of_block` does not
    // know it, it is the next allocator's.
    unsafe {
        let Some(old) = front::size_of_block(p) else {
            if nothing::has(p) {
                return nothing::replace(p, front::alloc16(size));
            }
            return foreign::realloc(p, size).unwrap_or_else(no_memory);
        };
        front::resize(p, old, size, 16).unwrap_or_else(|| realloc_by_copy(p, old, size))
    }
}

/// [`realloc`] of a block of this allocator, which holds `old` bytes, to a new block.
///
/// # Safety
/// `p` is a live block of this allocator that holds `old` bytes, and the caller's.
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
unsafe fn realloc_by_copy(p: *mut u8, old: usize, size: usize) -> *mut u8 {
    // A wrong pointer would get onto a free list when `move_grown` frees it.
    check::check_any(p);
    let to = front::alloc16(size);
    if to.is_null() {
        // A block that is to shrink can stay.
        // SAFETY: the caller promises a live block of its own, which is as it was.
        return if size <= old { p } else { unsafe { front::resize_at_last(p, old, size, 16) } };
    }
    // SAFETY: the caller promises that `p` is live, holds `old` bytes and is the caller's. `to` is
    // a new block of `size` bytes.
    unsafe { front::move_grown(p, old, to, size) };
    to
}

fn no_memory() -> *mut u8 {
    crate::os::set_enomem();
    null_mut()
}

/// Allocates a block aligned to `align`, a power of two. Returns NULL with errno ENOMEM if there is
/// no memory.
///
/// # Safety
/// The caller has to keep no promise. The function is unsafe to match the rest of this front end.
pub unsafe fn memalign(align: usize, size: usize) -> *mut u8 {
    if harden::ON {
        return hardened::alloc(size, align, Origin::C);
    }
    if align <= 16 {
        front::alloc16(size)
    } else {
        front::alloc_aligned(size, align, front::Clear::Nothing)
    }
}

/// The bytes of the block at `p` that the caller may use; 0 for NULL. For a foreign pointer, the
/// next allocator answers.
///
/// # Safety
/// `p` is NULL, or a live block of this or of the next allocator.
pub unsafe fn usable_size(p: *mut u8) -> usize {
    if p.is_null() {
        return 0;
    }
    if harden::ON {
        // SAFETY: the caller promises that `p` is live, and it is not NULL.
        return unsafe { hardened::usable_size(p) };
    }
    // SAFETY: the caller promises that `p`, if it is ours, is live.
    if let Some(page) = unsafe { front::own_page(p) } {
        // SAFETY: the page is this thread's, so its frees go to a list of the thread's.
        let first = unsafe { (*page.frees_to.get()).free.get() };
        check::check_not_free(p, page, first);
        return page.block_size.get() as usize;
    }
    // SAFETY: the caller promises that `p` is live, and it is not NULL. If `size_of_block` does not
    // know it, it is the next allocator's.
    unsafe { front::size_of_block(p).unwrap_or_else(|| foreign::usable_size(p)) }
}

/// Prepares the checks that need to know which libraries are loaded, such as a free of a library's
/// variable. `next` is an address of code of the next allocator. The search that [`on_foreign`]
/// registers calls this. It may allocate.
pub fn find_objects(next: usize) {
    stray::find_objects(next);
}

/// Gives up what is free in the calling thread's heap, and purges all dirty memory now. Under
/// RLIMIT_AS, also gives unused address space back. Returns true if there was dirty memory. O(all
/// free memory).
pub fn trim() -> bool {
    if thread::holds_a_lock() {
        return false; // This thread's signal handler interrupted the allocator.
    }
    thread::give_up_own();
    let given = purge::all();
    if arena::is_limited() {
        arena::make_room(0);
    }
    given > 0
}

/// Gives up what is free in the calling thread's heap: its free lists, its empty pages, its cached
/// large blocks and its remote frees. For a thread that is about to sleep. The memory serves other
/// threads at once, and goes back to the system after the decay. The next allocations of the thread
/// are slower, as its lists are empty. O(classes, and the blocks in lists).
///
/// Background purging does this too for a thread that sleeps, but not for blocks on its lists. A
/// runtime that knows when a worker has nothing to do can call this:
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// use hakmem::Hakmem;
///
/// #[global_allocator]
/// static ALLOCATOR: Hakmem = Hakmem::new();
///
/// # fn main() {
/// std::thread::spawn(|| {
///     let work: Vec<String> = (0..1000).map(|i| i.to_string()).collect();
///     drop(work);
///     hakmem::thread_idle();
///     // … and now the thread waits for more.
/// })
/// .join()
/// .unwrap();
/// # }
/// ```
pub fn thread_idle() {
    if thread::holds_a_lock() {
        return; // This thread's signal handler interrupted the allocator.
    }
    if let thread::ThreadState::Live(heap) = thread::state()
        && !heap.is_busy()
    {
        heap.collect();
        parked::try_merge(); // Of a page that another thread parked, nobody else may merge these.
        heap.set_released(false);
        purge::tick();
    }
}

/// Gives back the reserved address space beyond what is in use, and calls `set`, which limits the
/// address space of the process (RLIMIT_AS) to `bytes`, less than it is now. So the program can
/// still map memory. Returns what `set` returns. No thread reserves address space while `set` runs.
/// So `set` must not allocate, free, panic (a panic allocates), or wait for another thread. If it
/// allocates and that needs fresh memory, the process ends with one line. O(all memory in use).
///
/// The C library's functions that set this limit do so under `libhakmem.so`. A Rust program calls
/// this itself:
///
/// ```
/// # extern crate hakmem_core as hakmem;
/// let (bytes, mut limit) = (1 << 36, libc::rlimit { rlim_cur: 0, rlim_max: 0 });
/// let status = hakmem::fit_address_limit(bytes, || {
///     // SAFETY: `limit` outlives both calls.
///     unsafe {
///         libc::getrlimit(libc::RLIMIT_AS, &mut limit);
///         limit.rlim_cur = bytes as libc::rlim_t;
///         libc::setrlimit(libc::RLIMIT_AS, &limit)
///     }
/// });
/// assert_eq!(status, 0);
/// ```
pub fn fit_address_limit<R>(bytes: usize, set: impl FnOnce() -> R) -> R {
    // This thread's signal handler interrupted the allocator under a lock: nothing is given back.
    if thread::holds_a_lock() {
        return set();
    }
    purge::all();
    arena::fit_limit(bytes, set)
}

/// The limit of the process's address space in bytes; usize::MAX if there is none.
pub fn address_limit() -> usize {
    os::address_limit()
}

/// The option for the bytes between two samples of the heap profile.
pub fn profile_interval() -> u64 {
    u64::from(policy::PROFILE_INTERVAL.get())
}

/// Reads the `HAKMEM_…` options from a NULL-terminated environment block, unless they were read
/// before. Only needed where the C library does not pass the environment to constructors. glibc
/// does, and there the crate has a constructor that reads it.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, which nobody changes during the call.
pub unsafe fn start(envp: *const *const c_char) {
    // SAFETY: the caller promises that `envp` is NULL or an environment block.
    unsafe { environment::read_once(envp) };
}

/// Reads options from a NULL-terminated environment block, also if others were read before.
///
/// # Safety
/// `envp` is NULL or a NULL-terminated array of C strings, which nobody changes during the call.
pub unsafe fn configure(envp: *const *const c_char) {
    // SAFETY: the caller promises that `envp` is NULL or an environment block.
    unsafe { environment::read(envp) };
}

/// Says whether the process filters its own system calls (seccomp). Under a filter, the allocator
/// makes no system call whose answer it can do without. The caller says so before it installs the
/// filter, and takes it back if that fails.
pub fn set_filtered(filtered: bool) {
    let is_first = filtered && !os::is_filtered();
    os::set_filtered(filtered);
    if is_first {
        arena::take_all_into_dumps();
    }
}

/// The value of the last [`set_filtered`].
pub fn is_filtered() -> bool {
    os::is_filtered()
}

/// False in a program that has rights which its user does not have: the user controls the
/// environment.
pub fn trusts_environment() -> bool {
    !os::is_secure()
}

/// True in a child of vfork, which shares its parent's memory, and with it what the allocator knows
/// of the parent process. One system call; two in a child that libc did not make by fork.
pub fn in_shared_memory() -> bool {
    os::in_shared_memory()
}

/// Ends the scavenger's thread, and prevents a new one until [`release_scavenger`]. The caller
/// calls this before it changes the rights or namespaces of the process, because that thread would
/// not follow the change. Calls nest. O(1), and the end of the thread.
pub fn hold_scavenger() {
    purge::hold(thread::holds_a_lock());
}

/// Ends one [`hold_scavenger`].
pub fn release_scavenger() {
    purge::release();
}

/// True if the scavenger's thread exists. Asks the system nothing.
pub fn has_scavenger() -> bool {
    purge::is_scavenged()
}

/// Ends the scavenger's thread. The caller calls this before a system call by which a thread of the
/// program ends: if it is the last one, the process then has its status. O(1), and the end of the
/// thread.
pub fn end_scavenger() {
    purge::end_scavenger(thread::holds_a_lock());
}

/// Ends the scavenger's thread for good. The caller calls this before it forbids the process system
/// calls.
pub fn forbid_scavenger() {
    purge::forbid(thread::holds_a_lock());
}

/// Promises that the program calls [`hold_scavenger`] before each change of the process's rights
/// and namespaces. Without this promise, a process that never had a second thread gets no
/// scavenger.
pub fn announce_rights() {
    purge::announce_rights();
    os::see_filters();
    thread::note_number();
}
