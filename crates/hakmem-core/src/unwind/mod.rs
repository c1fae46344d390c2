//! The unwinder: the return addresses on the calling thread's stack, by the tables that programs
//! have for exceptions.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod processor;
pub mod rules;
pub mod stack;

/// This place.
#[cfg(not(any(miri, shuttle)))]
#[inline(always)]
pub fn here() -> crate::os::Registers {
    let (pc, stack, frame);
    // SAFETY: the instructions only copy registers. They touch no memory and no flags.
    unsafe {
        core::arch::asm!(
            processor::copy_place!(),
            out(reg) pc,
            out(reg) stack,
            out(reg) frame,
            options(nomem, nostack, preserves_flags)
        );
    }
    // Where a call leaves its return address in a register, the calling function has saved its own:
    // it makes calls.
    crate::os::Registers { pc, stack, frame, link: 0 }
}
