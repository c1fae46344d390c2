//! `dlopen`, without RTLD_DEEPBIND.
//!
//! The loader searches the names of a library with that flag in the library and its own
//! dependencies first. So the library gets the C library's `free`, while the functions that it
//! calls, `strdup` for one, use the program's `malloc`. The first block that crosses ends the
//! program, with any allocator but the C library's own (php loads its extensions so). So this
//! `dlopen` removes the flag. The price is the flag's purpose: if the program and such a library
//! export the same name, the library now gets the program's.
//!
//! 1. The loader finds the caller of `dlopen` by the return address, and uses the caller's RUNPATH
//!    and namespace. So this function jumps to the next `dlopen` and does not call it: hence
//!    assembly.
//! 2. `NEXT` is 0 or the address of a function with `dlopen`'s type that does not lead back here.
//!    Any thread may store it, and all store the same value: relaxed.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// The contract of `dlopen`: `file` is NULL or a C string, and the library's constructors may run.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
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
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        ".cfi_startproc",
        "and w1, w1, {kept}",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {find}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_def_cfa_offset 0",
        "br x16",
        ".cfi_endproc",
        kept = const !libc::RTLD_DEEPBIND,
        next = sym NEXT,
        find = sym find,
    )
}

/// The next `dlopen` in link order, or one that finds nothing.
#[cold]
extern "C" fn find() -> Dlopen {
    // SAFETY: the name is a C string, and dlsym only reads it.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    if next.is_null() {
        return none;
    }
    NEXT.store(next as usize, Relaxed);
    // SAFETY: dlsym found the function under the name dlopen, and a function of that name has this
    // type (rule 2).
    unsafe { core::mem::transmute::<*mut c_void, Dlopen>(next) }
}

/// Stands for a missing `dlopen`. `dlsym` has left the reason for `dlerror`.
unsafe extern "C" fn none(_file: *const c_char, _mode: c_int) -> *mut c_void {
    null_mut()
}
