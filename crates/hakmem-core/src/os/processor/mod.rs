//! What Linux's interface has differently on each processor.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;

pub use arch::*;

/// The address of a symbol, by the linker's table of addresses: null if nobody defines it. To be
/// used in an `unsafe` block.
macro_rules! address_of {
    ($symbol:literal) => {{
        let address;
        core::arch::asm!(
            // Each object file says itself that the symbol is weak: the code may go into any.
            concat!(".weak ", $symbol),
            $crate::os::processor::load_address!($symbol),
            out(reg) address,
            options(pure, readonly, nostack, preserves_flags)
        );
        address
    }};
}
pub(super) use address_of;
