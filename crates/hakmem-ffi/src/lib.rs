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
//! | `life` | start and end of the process, and the signal for a report; `settings`, `report`, `sink` and `out` serve it |
//! | `report` | the report: `figures` has what is in it, `forms` and `human` how it looks, `usage` what the system says |
//! | `map` | what each slot of the heap holds |
//! | `profile` | the heap profile that `HAKMEM_PROFILE` asks for |
//! | `next` | the allocator behind us, for pointers that are not ours |
#![no_std]

mod aligned;
mod api;
mod bad_alloc;
mod cancel;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod dlopen;
mod errno;
mod figures;
mod forms;
mod glibc;
mod human;
mod life;
mod limits;
mod map;
mod next;
mod operators;
mod out;
mod profile;
mod report;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod rights;
mod settings;
mod sink;
mod stdlib;
mod usage;

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
