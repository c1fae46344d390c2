//! `dlopen`, without RTLD_DEEPBIND.
//!
//! A library loaded with that flag looks names up in itself and its own dependencies first, the C library among them:
//! it gets that one's `free` while the functions it calls, `strdup` for one, have the program's `malloc`. The first
//! block that crosses ends the program, with any allocator but the C library's own (php loads its extensions so). So
//! the flag is taken out. What is lost is its purpose: of two libraries that export the same name, such a library
//! now gets the program's, not its own.
//!
//! The loader takes whoever called `dlopen` for the one whose RUNPATH and namespace count, by the return address.
//! So this must not call the next `dlopen` but jump to it, hence assembly.
//!
//! 1. `NEXT` is 0 or the address of a function with `dlopen`'s type that does not lead back here. Anyone may store it,
//!    as all find the same: relaxed.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// The C contract.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "and esi, {kept}",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rax", // for the stack's alignment
        ".cfi_adjust_cfa_offset 8",
        "call {find}",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        kept = const !libc::RTLD_DEEPBIND,
        next = sym NEXT,
        find = sym find,
    )
}

/// The next `dlopen` in link order, or one that finds nothing.
#[cold]
extern "C" fn find() -> Dlopen {
    // SAFETY: the name is a C string.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    if next.is_null() {
        return none;
    }
    NEXT.store(next as usize, Relaxed);
    // SAFETY: what goes by this name has this type (1).
    unsafe { core::mem::transmute::<*mut c_void, Dlopen>(next) }
}

/// `dlerror` has the reason: `dlsym` left it.
unsafe extern "C" fn none(_file: *const c_char, _mode: c_int) -> *mut c_void {
    null_mut()
}
