//! The allocator behind us in link order, for pointers that are not ours.
//!
//! Usually that is the C library's own, and usually it has never handed out a block; then a foreign pointer is not its
//! block either, and passing it on would end the program. So for as long as the next allocator says it holds nothing,
//! the pointer is left alone, unless the core sees an error in it. After that the judgement is its own.

use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use hakmem_core::c::{self, Next};

type Free = unsafe extern "C" fn(*mut u8);
type Realloc = unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
type UsableSize = unsafe extern "C" fn(*mut u8) -> usize;
type Mallinfo2 = unsafe extern "C" fn() -> libc::mallinfo2;

/// Addresses of the next allocator's functions; `MALLINFO2` is 0 if it has none or has been seen in use.
static FREE: AtomicUsize = AtomicUsize::new(0);
static REALLOC: AtomicUsize = AtomicUsize::new(0);
static USABLE_SIZE: AtomicUsize = AtomicUsize::new(0);
static MALLINFO2: AtomicUsize = AtomicUsize::new(0);

/// Finds the next allocator: all three functions, none of them ours, or nothing.
pub fn find() -> Option<Next> {
    let free = symbol(c"free", crate::stdlib::free as *const ())?;
    let realloc = symbol(c"realloc", crate::stdlib::realloc as *const ())?;
    let usable_size = symbol(
        c"malloc_usable_size",
        crate::stdlib::malloc_usable_size as *const (),
    )?;
    FREE.store(free, Relaxed);
    REALLOC.store(realloc, Relaxed);
    USABLE_SIZE.store(usable_size, Relaxed);
    let mallinfo2 = symbol(c"mallinfo2", crate::glibc::mallinfo2 as *const ());
    // Only if it speaks for the same allocator: libraries in between often have no mallinfo2 of their own.
    let same = mallinfo2.filter(|&address| library(address) == library(free));
    MALLINFO2.store(same.unwrap_or(0), Relaxed);
    c::find_objects(free);
    Some(Next {
        free: next_free,
        realloc: next_realloc,
        usable_size: next_usable_size,
    })
}

fn symbol(name: &CStr, ours: *const ()) -> Option<usize> {
    // SAFETY: the name is a C string.
    let p = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!p.is_null() && p.cast_const().cast() != ours).then_some(p as usize)
}

/// The base of the library that holds an address; 0 if none does.
fn library(address: usize) -> usize {
    // SAFETY: a struct of pointers; zeroes are valid.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: any address may be asked for, and the struct is valid for the write.
    let found: c_int = unsafe { libc::dladdr(address as *const c_void, &mut info) };
    if found == 0 {
        0
    } else {
        info.dli_fbase as usize
    }
}

/// Whether the next allocator may have handed out a block.
fn in_use() -> bool {
    let address = MALLINFO2.load(Relaxed);
    if address == 0 {
        return true;
    }
    // SAFETY: the address was found under this name in a library that also has malloc's functions.
    let info = unsafe { transmute::<usize, Mallinfo2>(address)() };
    // arena: bytes from its heaps; hblkhd: bytes in blocks with a mapping of their own.
    if info.arena == 0 && info.hblkhd == 0 {
        return false;
    }
    MALLINFO2.store(0, Relaxed);
    true
}

unsafe extern "C" fn next_free(p: *mut u8) {
    if in_use() {
        // SAFETY: `find` stored the function's address; the pointer is the caller's responsibility.
        return unsafe { transmute::<usize, Free>(FREE.load(Relaxed))(p) };
    }
    c::nobodys(p);
}

unsafe extern "C" fn next_realloc(p: *mut u8, size: usize) -> *mut u8 {
    if in_use() {
        // SAFETY: as in next_free.
        return unsafe { transmute::<usize, Realloc>(REALLOC.load(Relaxed))(p, size) };
    }
    c::nobodys(p);
    crate::errno::fail(libc::ENOMEM)
}

unsafe extern "C" fn next_usable_size(p: *mut u8) -> usize {
    if in_use() {
        // SAFETY: as in next_free.
        return unsafe { transmute::<usize, UsableSize>(USABLE_SIZE.load(Relaxed))(p) };
    }
    0
}
