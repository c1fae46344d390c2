//! The first arena's bounds on the fast path.
//!
//! The words are read without order (`proto::bounds` rule 3), by instructions that use them where they lie: the compiler does not
//! fold an atomic load into such, which would cost `free` 6 instructions of 24, and plain reads would race with the writer.

use crate::arena::HOT;
use crate::page::Meta;

#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer))))]
mod words {
    use super::{HOT, Meta};
    use crate::proto::bounds::offsets;
    use core::arch::asm;

    /// In sixteenths of a byte, and larger than any limit for an address that is no multiple of 16. None: beyond the limit.
    #[inline(always)]
    pub fn offset16(address: usize) -> Option<usize> {
        let offset: usize;
        // SAFETY: reads words of a static.
        unsafe {
            asm!(
                "sub {offset}, qword ptr [rip + {hot} + {data}]",
                "ror {offset}, 4",
                offset = inout(reg) address => offset,
                hot = sym HOT,
                data = const offsets::DATA,
                options(pure, readonly, nostack)
            );
            asm!(
                "cmp {offset}, qword ptr [rip + {hot} + {limit}]",
                "jae {beyond}",
                offset = in(reg) offset,
                hot = sym HOT,
                limit = const offsets::LIMIT16,
                beyond = label { return None },
                options(readonly, nostack)
            );
        }
        Some(offset)
    }

    /// The distance from the first page. None: beyond the limit.
    #[inline(always)]
    pub fn offset(address: usize) -> Option<usize> {
        let offset: usize;
        // SAFETY: reads words of a static.
        unsafe {
            asm!(
                "sub {offset}, qword ptr [rip + {hot} + {data}]",
                offset = inout(reg) address => offset,
                hot = sym HOT,
                data = const offsets::DATA,
                options(pure, readonly, nostack)
            );
            asm!(
                "cmp {offset}, qword ptr [rip + {hot} + {limit}]",
                "jae {beyond}",
                offset = in(reg) offset,
                hot = sym HOT,
                limit = const offsets::LIMIT,
                beyond = label { return None },
                options(readonly, nostack)
            );
        }
        Some(offset)
    }

    /// The metadata that lies so many bytes from the first page's.
    #[inline(always)]
    pub fn meta(offset: usize) -> *const Meta {
        let meta: *const Meta;
        // SAFETY: reads a word of a static.
        unsafe {
            asm!(
                "add {meta}, qword ptr [rip + {hot} + {metas}]",
                meta = inout(reg) offset => meta,
                hot = sym HOT,
                metas = const offsets::METAS,
                options(pure, readonly, nostack)
            );
        }
        meta
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer)))))]
mod words {
    use super::{HOT, Meta};

    /// See above.
    #[inline(always)]
    pub fn offset16(address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(HOT.data()).rotate_right(4);
        (offset < HOT.limit16()).then_some(offset)
    }

    /// See above.
    #[inline(always)]
    pub fn offset(address: usize) -> Option<usize> {
        HOT.offset(address)
    }

    /// See above.
    #[inline(always)]
    pub fn meta(offset: usize) -> *const Meta {
        HOT.metas().wrapping_add(offset).cast()
    }
}

pub use words::{meta, offset, offset16};
