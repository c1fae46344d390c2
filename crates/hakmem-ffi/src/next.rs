//! The next allocator in link order, for foreign pointers.
//!
//! Usually that is the C library's own, and it has allocated nothing. Then a foreign pointer is
//! none of its blocks, and its `free` would end the program. So `has_memory` tells the core whether
//! it may pass a pointer on. Once the next allocator has held memory, it gets all foreign pointers,
//! and decides itself.

use crate::bound;
use core::ffi::CStr;
#[cfg(target_env = "gnu")]
use core::ffi::{c_int, c_void};
use core::mem::transmute;
#[cfg(target_env = "gnu")]
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use hakmem_core::c::{self, Next};

type Free = unsafe extern "C" fn(*mut u8);
type Realloc = unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
type UsableSize = unsafe extern "C" fn(*mut u8) -> usize;
#[cfg(target_env = "gnu")]
type Mallinfo2 = unsafe extern "C" fn() -> libc::mallinfo2;

/// The address of the next allocator's `mallinfo2`. 0: it has no such function, or it was seen with
/// memory.
#[cfg(target_env = "gnu")]
static MALLINFO2: AtomicUsize = AtomicUsize::new(0);

/// Finds the next allocator: all three functions, none of them ours, or nothing.
pub fn find() -> Option<Next> {
    let free = symbol(c"free", bound::own_free())?;
    let realloc = symbol(c"realloc", bound::own_realloc())?;
    let usable_size = symbol(
        c"malloc_usable_size",
        crate::stdlib::malloc_usable_size as *const (),
    )?;
    #[cfg(target_env = "gnu")]
    find_mallinfo2(free);
    c::find_objects(free);
    // SAFETY: the functions were found under these names, so they have these types.
    unsafe {
        Some(Next {
            free: transmute::<usize, Free>(free),
            realloc: transmute::<usize, Realloc>(realloc),
            usable_size: transmute::<usize, UsableSize>(usable_size),
            has_memory,
        })
    }
}

#[cfg(target_env = "gnu")]
fn find_mallinfo2(free: usize) {
    let mallinfo2 = symbol(c"mallinfo2", crate::glibc::mallinfo2 as *const ());
    // Only a mallinfo2 of the same library is of the same allocator. Libraries in between often
    // have none of their own.
    let same = mallinfo2.filter(|&address| library(address) == library(free));
    MALLINFO2.store(same.unwrap_or(0), Relaxed);
}

fn symbol(name: &CStr, ours: *const ()) -> Option<usize> {
    // SAFETY: `name` is a C string, and dlsym only reads it.
    let p = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!p.is_null() && p.cast_const().cast() != ours).then_some(p as usize)
}

/// The base of the library that holds an address; 0 if none does.
#[cfg(target_env = "gnu")]
fn library(address: usize) -> usize {
    // SAFETY: Dl_info is a struct of raw pointers, for which all zeroes are valid.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: dladdr accepts any address, and `info` is a local variable that it may write.
    let found: c_int = unsafe { libc::dladdr(address as *const c_void, &mut info) };
    if found == 0 {
        0
    } else {
        info.dli_fbase as usize
    }
}

/// Whether the next allocator may have allocated a block. Only glibc's says.
#[cfg(not(target_env = "gnu"))]
fn has_memory() -> bool {
    true
}

/// Whether the next allocator may have allocated a block.
#[cfg(target_env = "gnu")]
fn has_memory() -> bool {
    let address = MALLINFO2.load(Relaxed);
    if address == 0 {
        return true;
    }
    // SAFETY: `find` found the address under the name mallinfo2, in the library that also has the
    // next `free`. A function of that name has this type.
    let info = unsafe { transmute::<usize, Mallinfo2>(address)() };
    // arena: bytes from its heaps; hblkhd: bytes in blocks with a mapping of their own.
    if info.arena == 0 && info.hblkhd == 0 {
        return false;
    }
    MALLINFO2.store(0, Relaxed);
    true
}
