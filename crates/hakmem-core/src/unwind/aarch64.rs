//! Frames on aarch64. `x86_64` has the same items.

use gimli::{AArch64, Register, RegisterRule};

pub const STACK: Register = AArch64::SP;
pub const FRAME: Register = AArch64::X29;
pub const RETURN: Register = AArch64::X30;
/// Room for the registers of a row of the tables. A function must preserve twenty, and one more
/// stands for the signature of the return address.
pub type Rules = [(Register, RegisterRule<usize>); 32];
/// Can tables say that the return address is still in a register? Here it is, until a function
/// saves it.
pub const HAS_LINK: bool = true;
/// Does a function's record of its caller end where the caller's stack begins? If not, only the
/// frame pointer is known behind a function without tables. Here the record may lie anywhere in the
/// frame, and compilers put it at the bottom.
pub const RECORD_IS_TOP: bool = false;

/// The return address without the signature that a function may have put into its upper bits.
#[inline(always)]
pub fn plain(address: usize) -> usize {
    let plain;
    // SAFETY: the instruction takes the signature out of x30, which is named as changed. Older
    // processors do nothing at this hint.
    unsafe {
        core::arch::asm!(
            "hint #7",
            inout("x30") address => plain,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    plain
}

/// Instructions that copy this place, the stack pointer and the frame pointer.
#[cfg(not(any(miri, shuttle)))]
macro_rules! copy_place {
    () => {
        "adr {}, .\nmov {}, sp\nmov {}, x29"
    };
}
#[cfg(not(any(miri, shuttle)))]
pub(super) use copy_place;
