//! Frames on x86-64. `aarch64` has the same items.

use gimli::{Register, RegisterRule, X86_64};

pub const STACK: Register = X86_64::RSP;
pub const FRAME: Register = X86_64::RBP;
pub const RETURN: Register = X86_64::RA;
/// Room for the registers of a row of the tables. A function must preserve seven. The row of a
/// signal's frame has seventeen.
pub type Rules = [(Register, RegisterRule<usize>); 18];
/// Can tables say that the return address is still in a register? Here each call puts it on the
/// stack.
pub const HAS_LINK: bool = false;
/// Does a function's record of its caller end where the caller's stack begins? If not, only the
/// frame pointer is known behind a function without tables.
pub const RECORD_IS_TOP: bool = true;

/// The return address without what a processor adds to it.
#[inline(always)]
pub fn plain(address: usize) -> usize {
    address
}

/// Instructions that copy this place, the stack pointer and the frame pointer.
#[cfg(not(any(miri, shuttle)))]
macro_rules! copy_place {
    () => {
        "lea {}, [rip]\nmov {}, rsp\nmov {}, rbp"
    };
}
#[cfg(not(any(miri, shuttle)))]
pub(super) use copy_place;
