//! Addresses that the compiler forms by an instruction of their own.
//!
//! A list that is popped again and again is stored to and loaded from in turn. Processors hand the
//! stored value to the next load early if the address of both is a register and a constant. They
//! wait for some cycles more if it has an index, as that of an array's element does.

/// The same reference. The compiler does not make its address a part of other instructions.
#[inline(always)]
pub fn formed<T>(at: &T) -> &T {
    #[cfg(all(target_arch = "x86_64", not(any(miri, shuttle))))]
    #[allow(clippy::pointers_in_nomem_asm_block, reason = "it holds no instruction")]
    // SAFETY: no instruction at all: the pointer stays the same, and so it may be borrowed as long
    // as `at` is.
    unsafe {
        let mut at: *const T = at;
        core::arch::asm!("/* {} */", inout(reg) at, options(pure, nomem, nostack, preserves_flags));
        &*at
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle)))))]
    at
}
