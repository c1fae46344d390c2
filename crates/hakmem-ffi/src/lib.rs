//! hakmem as a C library: `malloc`, `free`, the C++ operators and everything around them.
//!
//! Each file has one family of C functions, which call [`hakmem_core::c`]. Nothing here allocates
//! by itself. `docs/c-abi.md` lists the behaviours.
//!
//! | file | what it exports |
//! |---|---|
//! | `stdlib` | `malloc`, `calloc`, `realloc`, `free` and their relatives |
//! | `aligned` | blocks with an alignment |
//! | `operators` | C++ `operator new` and `operator delete`; `bad_alloc` is their failure path |
//! | `glibc` | the GNU extras: `mallopt`, `mallinfo`, `malloc_info`, … and the `__libc_` aliases |
//! | `api` | hakmem's own functions, the content of `hakmem.h` |
//! | `limits` | `setrlimit` and `prlimit`, which must leave the program address space |
//! | `dlopen` | `dlopen`, so that a loaded library has the same allocator as the program |
//! | `rights` | `setuid`, `unshare`, `prctl` and others, which change rights or the sandbox |
//! | `life` | the start in a process; `hakmem_core::report` makes the reports |
//! | `next` | the next allocator in link order, for foreign pointers |
#![no_std]

mod aligned;
mod api;
mod bad_alloc;
mod bound;
mod cancel;
#[cfg(target_env = "gnu")]
mod dlopen;
mod glibc;
mod heaps;
mod life;
mod limits;
mod next;
mod operators;
#[cfg(target_env = "gnu")]
mod rights;
mod stdlib;

use hakmem_core::report::{errno, out};

// The libc crate leaves linking to std when any crate of the build enables its `std` feature.
#[link(name = "c")]
unsafe extern "C" {}

// The precompiled `core` was built to unwind. Without LTO its objects still name the unwinder,
// though nothing calls it. build.rs points those names here, in the shared library only: a program
// linked with the static library has an unwinder of its own.
core::arch::global_asm!(
    ".pushsection .text.hakmem_no_unwinder,\"ax\",%progbits",
    ".globl hakmem_no_unwinder",
    ".hidden hakmem_no_unwinder",
    ".p2align 4",
    "hakmem_no_unwinder:",
    ".8byte 0", // never run
    ".popsection",
);

// In a program with the static library, more objects name it: those of the dev profile, and on
// aarch64 the functions of `compiler_builtins` for atomic steps of older processors. A Rust program
// has its own definition, which takes precedence.
core::arch::global_asm!(
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".set rust_eh_personality, hakmem_no_unwinder",
);

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    match info.location() {
        Some(at) => out::last_line(format_args!(
            "internal error at {}:{}",
            at.file(),
            at.line()
        )),
        None => out::last_line(format_args!("internal error")),
    }
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}
