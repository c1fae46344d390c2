//! The `realloc` and `free` of the process, where something stands in front of those of this
//! library.
//!
//! A program may have a malloc of its own, and a library in front of this one may wrap it. Neither
//! need have `reallocarray`, as the C library's calls `realloc` by its name, and C23's `free_sized`
//! is `free` where a C library has it. So must it be in a library that replaces these. build.rs
//! keeps the linker from binding the two names within this library.
//!
//! The library asks who stands in front when it is loaded: the loader's lock is no matter then.
//!
//! In a process that opened the library by `dlopen`, the names are bound to the C library's
//! functions. Whoever takes functions of this library by the handle gets all of them there.

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// Loads an entry of the library's table of addresses.
#[cfg(target_arch = "x86_64")]
macro_rules! load {
    ($name:literal) => {
        concat!("mov {at}, qword ptr [rip + ", $name, "@GOTPCREL]")
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! load {
    ($name:literal) => {
        concat!(
            "adrp {at}, :got:",
            $name,
            "\nldr {at}, [{at}, :got_lo12:",
            $name,
            "]"
        )
    };
}

/// The address that the dynamic linker bound a name to. A path to the function would not do: the
/// compiler may take it for the one in this crate.
macro_rules! bound {
    ($name:literal) => {{
        let at: *const ();
        // SAFETY: reads an entry of the table, which the dynamic linker filled.
        unsafe {
            core::arch::asm!(
                load!($name),
                at = out(reg) at,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        at
    }};
}

/// The address of this library's exported function, by the name that build.rs gives it. A program
/// with the static library does not have that name, but the function alone.
macro_rules! own {
    ($name:literal, $function:path) => {{
        let at: *const ();
        // SAFETY: as in `bound`. A weak symbol that nobody defines is null.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!(".hidden ", $name),
                load!($name),
                at = out(reg) at,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        if at.is_null() {
            $function as *const ()
        } else {
            at
        }
    }};
}

/// This library's exported `realloc`.
pub fn own_realloc() -> *const () {
    own!("hakmem_own_realloc", crate::stdlib::realloc)
}

/// This library's exported `free`.
pub fn own_free() -> *const () {
    own!("hakmem_own_free", crate::stdlib::free)
}

/// The process's `realloc`. None: it is this library's, or the library was opened by `dlopen`.
#[inline(always)]
pub fn realloc() -> Option<Realloc> {
    let (own, bound) = (own_realloc(), bound!("realloc"));
    // SAFETY: a function of that name has this type.
    (own != bound && is_loaded_first(own))
        .then(|| unsafe { transmute::<*const (), Realloc>(bound) })
}

/// The process's `free`. None: as for [`realloc`].
#[inline(always)]
pub fn free() -> Option<Free> {
    let (own, bound) = (own_free(), bound!("free"));
    // SAFETY: a function of that name has this type.
    (own != bound && is_loaded_first(own)).then(|| unsafe { transmute::<*const (), Free>(bound) })
}

/// What a function that is derived from `realloc` calls: the process's, or else this library's. It
/// is called by its address, as the program calls it: so tools that replace a function where it
/// begins, as valgrind does, replace it here, too.
#[inline(always)]
pub fn realloc_to_call() -> Realloc {
    // SAFETY: a function of that name has this type.
    realloc().unwrap_or_else(|| unsafe { transmute::<*const (), Realloc>(own_realloc()) })
}

/// The same for `free`.
#[inline(always)]
pub fn free_to_call() -> Free {
    // SAFETY: a function of that name has this type.
    free().unwrap_or_else(|| unsafe { transmute::<*const (), Free>(own_free()) })
}

/// Finds out, for the library's constructor. Nothing to find is the usual case, and costs four
/// loads.
#[inline(always)]
pub fn look_in_front() {
    let _ = (realloc(), free());
}

/// True if this library, which has `own`, was loaded before the C library: at the start of the
/// program, so that the names of the process are its own or those of something in front of it.
#[cold]
#[inline(never)]
fn is_loaded_first(own: *const ()) -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    // Relaxed: threads that ask at once find the same answer.
    if ANSWER.load(Relaxed) == UNKNOWN {
        // Behind this library. By its name alone the program might have it, too.
        // SAFETY: the name is a C string, and dlsym only reads it.
        let other = unsafe { libc::dlsym(libc::RTLD_NEXT, c"abort".as_ptr()) };
        let mut order = Order {
            own: own.addr(),
            other: other.addr(),
            is_first: false,
        };
        if !other.is_null() {
            // SAFETY: `look` gets a pointer to `order`, which lives until the call returns.
            unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut order).cast()) };
        }
        ANSWER.store(if order.is_first { YES } else { NO }, Relaxed);
    }
    ANSWER.load(Relaxed) == YES
}

/// Two addresses, and whether the object with the first one comes before that with the other.
struct Order {
    own: usize,
    other: usize,
    is_first: bool,
}

/// Ends the iteration, which has the order of loading, at the first object with one of the
/// addresses.
///
/// # Safety
/// For `dl_iterate_phdr`, with an [`Order`].
unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    order: *mut c_void,
) -> c_int {
    // SAFETY: the C library passes a valid description, and the pointer that it got.
    let (info, order) = unsafe { (&*info, &mut *order.cast::<Order>()) };
    let has = |address: usize| {
        (0..usize::from(info.dlpi_phnum)).any(|i| {
            // SAFETY: the object has so many headers.
            let header = unsafe { &*info.dlpi_phdr.wrapping_add(i) };
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD && address.wrapping_sub(start) < header.p_memsz as usize
        })
    };
    order.is_first = has(order.own);
    c_int::from(order.is_first || has(order.other))
}
