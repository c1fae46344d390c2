//! The probes on aarch64.

use super::probe;
use core::arch::asm;

/// The probe `alloc`.
#[cold]
#[inline(never)]
pub fn alloc(at: usize, size: u64, weight: u64) {
    // SAFETY: the code is a `nop`. The rest of the text is in other sections.
    unsafe {
        asm!(probe!("alloc", "8@x0 8@x1 8@x2"), in("x0") at, in("x1") size, in("x2") weight,
            options(nostack, preserves_flags));
    }
}

/// The probe `free`.
#[cold]
#[inline(never)]
pub fn free(at: usize, size: u64, weight: u64) {
    // SAFETY: the code is a `nop`. The rest of the text is in other sections.
    unsafe {
        asm!(probe!("free", "8@x0 8@x1 8@x2"), in("x0") at, in("x1") size, in("x2") weight,
            options(nostack, preserves_flags));
    }
}
