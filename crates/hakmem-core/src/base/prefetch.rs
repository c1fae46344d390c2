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

/// Fetches the lines of cache at addresses that need not be accessible.
///
/// A processor may drop a prefetch if it already waits for many lines. So on x86-64 a fence follows
/// each few of them. It does not wait for the lines, but it keeps the next prefetches back for a
/// moment.
pub fn prefetch_all<T>(at: impl Iterator<Item = *const T>) {
    const FEW: usize = 8;
    for (i, at) in at.enumerate() {
        prefetch(at);
        #[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
        if i % FEW == FEW - 1 {
            // SAFETY: the fence is no memory access. Each x86-64 processor has it.
            unsafe { core::arch::x86_64::_mm_lfence() };
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle)))))]
        let _ = (i, FEW);
    }
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
