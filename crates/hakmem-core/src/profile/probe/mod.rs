//! Probes: places in the code at which a program outside sees each sample, with its stack.
//!
//! They are those of OpenTelemetry's memory profiling, in the form of SystemTap (`stapsdt`): an ELF
//! note that is not mapped says where a `nop` lies, and which registers have the arguments. A
//! profiler, bpftrace or gdb puts a breakpoint in place of the `nop`. Nobody does so mostly, and
//! then a probe costs the `nop` and the call of its function, on the path of a sample alone.
//!
//! | probe | at | arguments, of eight bytes each |
//! |---|---|---|
//! | `otel_memory:alloc` | an allocation that became a sample | address, bytes of the block, weight |
//! | `otel_memory:free` | the free of a sample | address, bytes of the block, weight |
//!
//! The weight is how many bytes of the program's allocations the sample stands for. The sum of all
//! weights is the profile's total, but for rounding. The contract of OpenTelemetry gives `free` the
//! address alone. What stands behind it does not disturb.
//!
//! Rules
//! 1. `free` runs before anybody can get the block again, `alloc` afterwards. So for an address the
//!    probes come in turn. The exception is a block that `realloc` moved: its old address may have
//!    been given to another thread before.
//! 2. `free` of a small block runs under the lock of the books, for rule 1. Whoever stops the
//!    process there stops all samples. Of a block of a program heap it runs under the lock of that
//!    heap.

#[cfg(not(any(miri, shuttle)))]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod processor;

/// Checkers have no machine code.
#[cfg(any(miri, shuttle))]
mod processor {
    pub fn alloc(_: usize, _: u64, _: u64) {}
    pub fn free(_: usize, _: u64, _: u64) {}
}

use super::estimate::bytes_of_one;

/// The block at `at`, of `size` bytes, became a sample at `interval`.
pub fn alloc(at: usize, size: u64, interval: u64) {
    processor::alloc(at, size, bytes_of_one(size, interval));
}

/// The sample at `at` is being freed.
pub fn free(at: usize, size: u64, interval: u64) {
    processor::free(at, size, bytes_of_one(size, interval));
}

/// Code for a probe: the `nop`, the note, and the byte by which readers of the note see whether the
/// file was moved after it was linked. `$arguments` says where the arguments are.
#[cfg(not(any(miri, shuttle)))]
macro_rules! probe {
    ($name:literal, $arguments:literal) => {
        concat!(
            "990: nop\n",
            ".pushsection .note.stapsdt,\"\",%note\n",
            ".p2align 2\n",
            // The lengths of the owner's name and of what follows, and the type.
            ".4byte 992f - 991f, 994f - 993f, 3\n",
            "991: .asciz \"stapsdt\"\n",
            "992: .p2align 2\n",
            // The places of the `nop`, of the byte, and of a semaphore, of which there is none.
            "993: .8byte 990b, _.stapsdt.base, 0\n",
            ".asciz \"otel_memory\"\n",
            ".asciz \"",
            $name,
            "\"\n",
            ".asciz \"",
            $arguments,
            "\"\n",
            "994: .p2align 2\n",
            ".popsection\n",
            ".ifndef _.stapsdt.base\n",
            ".pushsection .stapsdt.base,\"aGR\",%progbits,.stapsdt.base,comdat\n",
            ".weak _.stapsdt.base\n",
            ".hidden _.stapsdt.base\n",
            "_.stapsdt.base: .space 1\n",
            ".size _.stapsdt.base, 1\n",
            ".popsection\n",
            ".endif\n",
        )
    };
}
#[cfg(not(any(miri, shuttle)))]
use probe;
