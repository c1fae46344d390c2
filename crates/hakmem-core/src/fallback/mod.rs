//! Where there is no port: [`Hakmem`] and [`Configured`] hand every call to an allocator that the
//! target has already. So a program with hakmem compiles everywhere, and `is_active` tells it
//! whether hakmem serves.
//!
//! | target | allocator | file |
//! |---|---|---|
//! | like Unix, and WASI | `malloc` and its family, of the C library | `c_library` |
//! | Windows | `HeapAlloc` and its family, on the heap of the process | `windows` |
//! | WebAssembly without a system | the crate dlmalloc | `wasm` |
//!
//! Each file is the module `system` of its target: `MIN_ALIGN`, `allocate`, `zeroed`, `free`,
//! `resize` and `write`. The rest of the folder stands for what programs see of the other layers:
//!
//! | file | what stands for what |
//! |---|---|
//! | `heaps` | heaps of the program that only count |
//! | `os` | what the options ask of the layer `os` |
//! | `profile` | a profile that does not start |
//! | `report` | reports without a figure |
//!
//! The figures are empty in `observe/stats/empty.rs`. With `--cfg hakmem_fallback` this is compiled
//! where there is a port, too: for tests.

mod alloc;
pub mod heaps;
pub mod os;
pub mod profile;
#[cfg(feature = "reports")]
pub mod report;

#[cfg_attr(any(unix, target_os = "wasi"), path = "c_library.rs")]
#[cfg_attr(windows, path = "windows.rs")]
#[cfg_attr(all(target_family = "wasm", not(any(unix, target_os = "wasi"))), path = "wasm.rs")]
#[cfg(any(unix, windows, target_family = "wasm"))]
mod system;
#[cfg(not(any(unix, windows, target_family = "wasm")))]
compile_error!(
    "hakmem-core has no port to this target, and the target no allocator to call instead."
);

/// Nothing: hakmem keeps no memory for this thread, as it does not serve.
pub fn thread_idle() {}

/// Calls `set`: hakmem reserves no address space here.
pub fn fit_address_limit<R>(_: usize, set: impl FnOnce() -> R) -> R {
    set()
}

/// Purges nothing here.
pub fn purge_all() -> usize {
    0
}

/// Keeps no callback here: there is no limit.
///
/// # Safety
/// None is needed here. Where hakmem serves, it calls the function in the middle of allocations.
pub unsafe fn set_limit_callback(_: Option<crate::LimitCallback>) {}
