//! Heaps that the program makes, in C. cbindgen makes a part of `hakmem.h` from this file.

use crate::errno;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use hakmem_core::c::heaps;

/// A heap that the program makes, limits, and drops as a whole. Its blocks come from functions that
/// name the heap, or from ordinary calls of a thread that is in a scope of it (hakmem_heap_enter).
///
/// - Any thread may use a heap. It has a lock of its own.
/// - Every block can be freed by free, and by C++ delete in the ordinary build. realloc of a block
///   moves it to a heap of the calling thread, or of its scope.
/// - The limit is for the live bytes of the heap, of both kinds of blocks. Each block counts with
///   its usable size. A request beyond the limit gets NULL and ENOMEM, and changes nothing else.
/// - A call with a heap that was deleted ends the process with a line that says so. (It is missed
///   once 8191 other heaps had the same place.) With NULL, as if the heap had no memory, allocation
///   fails and the other functions do nothing.
#[allow(non_camel_case_types, reason = "the name is C's")]
pub struct hakmem_heap {
    _opaque: u8,
}

/// Figures of a heap that the program made.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name is C's")]
pub struct hakmem_heap_stats {
    /// Bytes of live blocks.
    pub live_bytes: u64,
    /// The most that `live_bytes` was.
    pub peak_live_bytes: u64,
    /// The most that it may be; UINT64_MAX: there is no limit.
    pub limit_bytes: u64,
    /// Blocks allocated.
    pub allocations: u64,
    /// Blocks that came back: freed, or given back by a reset.
    pub frees: u64,
    /// Requests that would have passed the limit.
    pub refused: u64,
    /// Bytes of the memory that the heap has, with free blocks and what it reserved.
    pub held_bytes: u64,
    /// Bytes that it reserved.
    pub reserved_bytes: u64,
}

/// Makes a heap. `name` is for reports; NULL: it has none. A `limit` of 0 is none. Returns NULL
/// with errno ENOMEM if there is no memory.
///
/// # Safety
/// `name` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_new(name: *const c_char, limit: usize) -> *mut hakmem_heap {
    let name = if name.is_null() {
        c""
    } else {
        // SAFETY: the caller says that it is a C string.
        unsafe { CStr::from_ptr(name) }
    };
    // A name that is no UTF-8 ends where it ceases to be.
    let name = match name.to_str() {
        Ok(name) => name,
        Err(error) => core::str::from_utf8(&name.to_bytes()[..error.valid_up_to()]).unwrap_or(""),
    };
    heaps::new(name, (limit != 0).then_some(limit)).cast()
}

/// malloc from the heap.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_malloc(heap: *mut hakmem_heap, size: usize) -> *mut c_void {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`. The alignment is a power of two.
    unsafe { heaps::allocate(heap.cast(), 16, size, false).cast() }
}

/// calloc from the heap.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_calloc(
    heap: *mut hakmem_heap,
    n: usize,
    size: usize,
) -> *mut c_void {
    // No heap has so many bytes. One that was deleted is found all the same.
    let size = n.saturating_mul(size);
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`. The alignment is a power of two.
    unsafe { heaps::allocate(heap.cast(), 16, size, true).cast() }
}

/// aligned_alloc from the heap. An alignment that is 0 or no power of two gives NULL and EINVAL.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_aligned_alloc(
    heap: *mut hakmem_heap,
    alignment: usize,
    size: usize,
) -> *mut c_void {
    if !alignment.is_power_of_two() {
        // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles
        // of `heaps::new`.
        unsafe { heaps::check(heap.cast()) };
        errno::set(libc::EINVAL);
        return null_mut();
    }
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`. The alignment was just checked.
    unsafe { heaps::allocate(heap.cast(), alignment, size, false).cast() }
}

/// realloc within the heap: with NULL it allocates, with a size of 0 it frees and returns NULL. A
/// failure leaves the block as it was. A block of another heap ends the process.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new. `p` is NULL or a live block of it, and the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_realloc(
    heap: *mut hakmem_heap,
    p: *mut c_void,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`. `p` is not NULL, so it is a live block of this heap, and the caller's.
    unsafe {
        if p.is_null() {
            return heaps::allocate(heap.cast(), 16, size, false).cast();
        }
        if size == 0 {
            heaps::free(heap.cast(), p.cast());
            return null_mut();
        }
        heaps::reallocate(heap.cast(), p.cast(), size).cast()
    }
}

/// Frees a block of the heap. Ignores NULL, and leaves errno alone. A block of another heap ends
/// the process.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new. `p` is NULL or a live block of it, and the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_free(heap: *mut hakmem_heap, p: *mut c_void) {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`. The caller gives up `p`.
    unsafe { heaps::free(heap.cast(), p.cast()) }
}

/// Gives back all blocks of the heap at once, but not those of its scopes. The limit and what was
/// reserved stay. If nothing was, a page of 64 KiB stays for each size up to 8 KiB in use, until
/// malloc_trim.
/// Returns 0, or -1 with errno EINVAL for NULL.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new. Nobody uses a block of the heap any more, but those of
/// its scopes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_reset(heap: *mut hakmem_heap) -> c_int {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`. It also says that nobody uses a block of the heap, but those of its scopes.
    done(unsafe { heaps::reset(heap.cast()) }, libc::EINVAL)
}

/// Deletes the heap, and gives back all of its blocks but those of its scopes. The memory of these
/// goes back when the last of them is freed. Returns 0, or -1 with errno EBUSY if a thread is in a
/// scope of the heap: then nothing was done. Ignores NULL.
///
/// # Safety
/// As hakmem_heap_reset, and nobody uses the heap any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_delete(heap: *mut hakmem_heap) -> c_int {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`. It also says that nobody uses the heap or a block of it, but those of its
    // scopes.
    done(unsafe { heaps::delete(heap.cast()) }, libc::EBUSY)
}

/// Begins a scope: from now on malloc, new and the like get memory from the heap when this thread
/// calls them. The program frees these blocks as usual, whenever it likes, also after
/// hakmem_heap_delete. Scopes nest. A thread that ends leaves its scopes. Returns 0, or -1 with
/// errno ENOMEM if there is no memory, if `heap` is NULL, or late in the end of the thread: then
/// there is no scope to leave.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_enter(heap: *mut hakmem_heap) -> c_int {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`.
    done(unsafe { heaps::enter(heap.cast()) }, libc::ENOMEM)
}

/// Ends the scope that this thread entered last. Returns 0, or -1 with errno EINVAL if it is none
/// of this heap: then nothing was done.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_leave(heap: *mut hakmem_heap) -> c_int {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`.
    done(unsafe { heaps::leave(heap.cast()) }, libc::EINVAL)
}

/// Sets the limit of live bytes; 0: there is none. What is live stays. Ignores NULL.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_set_limit(heap: *mut hakmem_heap, limit: usize) {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`.
    unsafe { heaps::set_limit(heap.cast(), (limit != 0).then_some(limit)) }
}

/// Takes memory for `bytes` bytes more, in steps of 2 MiB and up to 512 MiB in all, and makes it
/// resident. From then on the heap makes no system call as long as its blocks of up to 1 MiB fit in
/// there. Returns 0, or -1 with errno ENOMEM. Beyond 512 MiB nothing changes. If there is no
/// memory, what was reserved before stays.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_reserve(heap: *mut hakmem_heap, bytes: usize) -> c_int {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`.
    done(unsafe { heaps::reserve(heap.cast(), bytes) }, libc::ENOMEM)
}

/// Gets the figures of the heap. For NULL, all of them are 0.
///
/// # Safety
/// `heap` is NULL or from hakmem_heap_new. `out` is aligned and valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hakmem_heap_get_stats(
    heap: *mut hakmem_heap,
    out: *mut hakmem_heap_stats,
) {
    // SAFETY: the caller says that `heap` is NULL or from hakmem_heap_new, which gives handles of
    // `heaps::new`.
    let figures = unsafe { heaps::figures(heap.cast()) };
    let limit_bytes = if heap.is_null() { 0 } else { u64::MAX };
    let figures = hakmem_heap_stats {
        live_bytes: figures.live_bytes,
        peak_live_bytes: figures.peak_live_bytes,
        limit_bytes: figures.limit_bytes.unwrap_or(limit_bytes),
        allocations: figures.allocations,
        frees: figures.frees,
        refused: figures.refused,
        held_bytes: figures.held_bytes,
        reserved_bytes: figures.reserved_bytes,
    };
    // SAFETY: the caller says that `out` is valid for writing.
    unsafe { out.write(figures) };
}

/// 0, or -1 with errno.
fn done(is_done: bool, error: c_int) -> c_int {
    if is_done {
        return 0;
    }
    errno::set(error);
    -1
}
