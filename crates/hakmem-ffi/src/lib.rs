//! hakmem as a C library: `malloc`, `free`, the C++ operators and everything around them.
//!
//! Nothing here allocates by itself: each file is one family of C functions, turned into calls of
//! [`hakmem_core::c`]. `docs/c-abi.md` lists the behaviours.
//!
//! | file | what it exports |
//! |---|---|
//! | `stdlib` | `malloc`, `calloc`, `realloc`, `free` and their relatives |
//! | `aligned` | blocks with an alignment |
//! | `operators` | C++ `operator new` and `operator delete`; `bad_alloc` is their failure path |
//! | `glibc` | the GNU extras: `mallopt`, `mallinfo`, `malloc_info`, … and the `__libc_` aliases |
//! | `api` | hakmem's own functions, the content of `hakmem.h` |
//! | `limits` | `setrlimit` and `prlimit`, which must leave the program room |
//! | `dlopen` | `dlopen`, so that libraries it loads have the same allocator as the program |
//! | `rights` | `setuid`, `unshare`, `prctl` and others by which a process changes its rights or its sandbox |
//! | `life` | the start in a process; the reports that the environment asks for are the core's (`hakmem_core::report`) |
//! | `next` | the allocator behind us, for pointers that are not ours |
#![no_std]

mod aligned;
mod api;
mod bad_alloc;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod dlopen;
mod glibc;
mod life;
mod limits;
mod next;
mod operators;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod rights;
mod stdlib;

use hakmem_core::report::{errno, out};

// The libc crate leaves linking to std when any crate of the build enables its `std` feature.
#[link(name = "c")]
unsafe extern "C" {}

// The precompiled `core` was built to unwind. Without LTO its objects still name the unwinder, though nothing calls it;
// build.rs points those names here, in the shared library alone: a program linked with the static one has its own.
core::arch::global_asm!(
    ".pushsection .text.hakmem_no_unwinder,\"ax\",%progbits",
    ".globl hakmem_no_unwinder",
    ".hidden hakmem_no_unwinder",
    ".p2align 4",
    "hakmem_no_unwinder:",
    ".8byte 0", // never run
    ".popsection",
);

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    match info.location() {
        Some(at) => out::stderr_line(format_args!(
            "internal error at {}:{}",
            at.file(),
            at.line()
        )),
        None => out::stderr_line(format_args!("internal error")),
    }
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}
