//! The probes on x86_64.

use super::probe;
use core::arch::asm;

/// The probe `alloc`.
#[cold]
#[inline(never)]
pub fn alloc(at: usize, size: u64, weight: u64) {
    // SAFETY: the code is a `nop`. The rest of the text is in other sections.
    unsafe {
        asm!(probe!("alloc", "8@%rdi 8@%rsi 8@%rdx"),
            in("rdi") at, in("rsi") size, in("rdx") weight,
            options(nostack, preserves_flags));
    }
}

/// The probe `free`.
#[cold]
#[inline(never)]
pub fn free(at: usize, size: u64, weight: u64) {
    // SAFETY: the code is a `nop`. The rest of the text is in other sections.
    unsafe {
        asm!(probe!("free", "8@%rdi 8@%rsi 8@%rdx"), in("rdi") at, in("rsi") size, in("rdx") weight,
            options(nostack, preserves_flags));
    }
}
