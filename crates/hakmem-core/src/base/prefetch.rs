//! Prefetching.

/// Fetches the line of cache at an address, which need not be accessible.
#[inline(always)]
pub fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
    // SAFETY: a prefetch is no memory access of the program. Any address is allowed, also null.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(any(miri, shuttle))))]
    // SAFETY: a prefetch is no memory access of the program: any address is allowed, also null. The
    // instruction changes no register.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{}]",
            in(reg) at,
            options(nomem, nostack, preserves_flags)
        );
    }
    #[cfg(any(miri, shuttle))]
    let _ = at;
}

/// Fetches the line of cache at an address, which need not be accessible, in order to write to it:
/// no other core has a copy afterwards.
#[inline(always)]
pub fn prefetch_to_write(at: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
    // SAFETY: a prefetch is no memory access of the program. Any address is allowed, also null. The
    // instruction changes no register. Processors without it do nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) at, options(nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(any(miri, shuttle))))]
    // SAFETY: a prefetch is no memory access of the program: any address is allowed, also null. The
    // instruction changes no register.
    unsafe {
        core::arch::asm!(
            "prfm pstl1keep, [{}]",
            in(reg) at,
            options(nomem, nostack, preserves_flags)
        );
    }
    #[cfg(any(miri, shuttle))]
    let _ = at;
}
