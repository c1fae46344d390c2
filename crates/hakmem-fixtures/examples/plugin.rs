//! A plug-in on hakmem: a shared library that carries the allocator and is loaded and unloaded at
//! run time.
//!
//! The tests of `hakmem-ffi` load it into programs that run on the system's allocator and into such
//! as run on hakmem already, where there are then two copies of it in one process.

use core::ffi::c_void;
use hakmem_core::Hakmem;
use std::collections::BTreeMap;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem::new();

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(p: *mut c_void);
}

/// What a caller holds of the plug-in's memory.
pub struct Held {
    seed: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

/// Allocates `n` blocks of many sizes. To be given to `plugin_drop`, on any thread.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_hold(n: u64, seed: u64) -> Box<Held> {
    let size = |i: u64| {
        let x = (seed ^ i).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20;
        if i % 64 == 63 { x % (2 << 20) } else { x % 900 }
    };
    let blocks = (0..n).map(|i| (i, vec![(seed ^ i) as u8; 1 + size(i) as usize]));
    Box::new(Held {
        seed,
        blocks: blocks.collect(),
    })
}

/// 1 if all of it is as it was made.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_check(held: &Held) -> i32 {
    let same = |(i, block): (&u64, &Vec<u8>)| block.iter().all(|&b| b == (held.seed ^ i) as u8);
    held.blocks.iter().all(same).into()
}

/// Frees it.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_drop(_: Box<Held>) {}

/// Has `mib` MiB for a moment, so that so much lies idle afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_leave_idle(mib: usize) {
    let blocks: Vec<_> = (0..mib).map(|i| vec![i as u8 | 1; 1 << 20]).collect();
    drop(std::hint::black_box(blocks));
}

/// A block of the C library's malloc, that is, of the program's allocator.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_give(n: usize) -> *mut c_void {
    // SAFETY: malloc may be called with any size.
    unsafe { malloc(n) }
}

/// Frees such a block.
///
/// # Safety
/// It is live, and the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plugin_take(p: *mut c_void) {
    // SAFETY: the caller passes a live block of this library, and gives it up.
    unsafe { free(p) }
}

/// Allocations that this copy of the allocator has served.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_served() -> u64 {
    hakmem_core::stats::process().allocations
}
