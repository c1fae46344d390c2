//! C functions that allocate blocks with an alignment.

use crate::{errno, stdlib::MAX};
use core::ffi::{c_int, c_void};
use core::hint::black_box;
use hakmem_core::c;
use libc::{EINVAL, ENOMEM};

/// Every block has at least this alignment.
const NATURAL: usize = 16;

/// A block of `size` bytes aligned to `align`, a power of two. NULL with ENOMEM if memory is short,
/// or if size and alignment together exceed `MAX`.
#[inline]
pub fn allocate(align: usize, size: usize) -> *mut c_void {
    debug_assert!(align.is_power_of_two());
    if align <= NATURAL {
        // SAFETY: the core's malloc allows any size.
        return unsafe { c::malloc(size).cast() };
    }
    if size > MAX || align > MAX - size {
        return errno::fail(ENOMEM);
    }
    // SAFETY: `align` is a power of two, as this function's callers check, and the check above
    // gives size + align ≤ MAX.
    unsafe { c::memalign(align, size).cast() }
}

/// [`allocate`] for C++ `new` or `new[]`. An alignment that is no power of two gets no memory, as
/// from libstdc++.
#[inline]
pub fn allocate_new(align: usize, size: usize, is_array: bool) -> *mut c_void {
    if !align.is_power_of_two() || size > MAX || align > MAX - size {
        return errno::fail(ENOMEM);
    }
    // SAFETY: the check above gives a power of two, and size + align ≤ MAX.
    unsafe { c::new(size, align, is_array).cast() }
}

/// C17: the alignment must be a power of two. The size need not be a multiple of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        return errno::fail(EINVAL);
    }
    allocate(align, size)
}

type Memalign = unsafe extern "C" fn(usize, usize) -> *mut c_void;

/// Obsolete. Rounds the alignment up to a power of two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => allocate(align, size),
        None => errno::fail(EINVAL),
    }
}

/// Returns the error number, leaves errno alone, and touches `*out` on success only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return EINVAL;
    }
    let p = errno::preserved(|| allocate(align, size));
    if p.is_null() {
        return ENOMEM;
    }
    // SAFETY: by posix_memalign's contract `out` is aligned and valid for a write.
    unsafe { *out = p };
    0
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions. glibc reads the auxiliary vector, without a system
    // call.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// A block at the start of a system page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    allocate(page_size(), size)
}

/// Whole system pages, at least one. By a call of `memalign`: valgrind 3.19 replaces that, and not
/// this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let (page, memalign) = (page_size(), black_box(memalign as Memalign));
    match size.max(1).checked_next_multiple_of(page) {
        // SAFETY: memalign takes any numbers.
        Some(size) => unsafe { memalign(page, size) },
        None => errno::fail(ENOMEM),
    }
}
