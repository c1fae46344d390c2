//! The first arena's bounds on the fast path.
//!
//! The words are read without order (`proto::bounds` rule 3), by instructions that use them where they lie: the compiler does not
//! fold an atomic load into such, which would cost `free` 6 instructions of 24, and plain reads would race with the writer.

use crate::backend::arena::HOT;

#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer))))]
mod words {
    use super::super::Meta;
    use super::HOT;
    use crate::proto::bounds::offsets;
    use core::arch::asm;

    /// The distance of an address from the first page.
    #[inline(always)]
    fn distance(address: usize) -> usize {
        let distance: usize;
        // SAFETY: reads a word of a static.
        unsafe {
            asm!(
                "sub {distance}, qword ptr [rip + {hot} + {data}]",
                distance = inout(reg) address => distance,
                hot = sym HOT,
                data = const offsets::DATA,
                options(pure, readonly, nostack)
            );
        }
        distance
    }

    /// Whether it is below the limit that lies so many bytes into the bounds.
    #[inline(always)]
    fn is_below<const LIMIT: usize>(distance: usize) -> bool {
        // SAFETY: reads a word of a static.
        unsafe {
            asm!(
                "cmp {distance}, qword ptr [rip + {hot} + {limit}]",
                "jae {beyond}",
                distance = in(reg) distance,
                hot = sym HOT,
                limit = const LIMIT,
                beyond = label { return false },
                options(readonly, nostack)
            );
        }
        true
    }

    /// In sixteenths of a byte, and larger than any limit for an address that is no multiple of 16. None: beyond the limit.
    #[inline(always)]
    pub fn offset16(address: usize) -> Option<usize> {
        let offset = distance(address).rotate_right(4);
        is_below::<{ offsets::LIMIT16 }>(offset).then_some(offset)
    }

    /// The distance from the first page. None: beyond the limit.
    #[inline(always)]
    pub fn offset(address: usize) -> Option<usize> {
        let offset = distance(address);
        is_below::<{ offsets::LIMIT }>(offset).then_some(offset)
    }

    /// The metadata that lies so many bytes from the first page's.
    #[inline(always)]
    pub fn meta(offset: usize) -> *const Meta {
        let meta: *const Meta;
        // SAFETY: reads a word of a static; the sum is an address in a map.
        unsafe {
            asm!(
                "add {meta}, qword ptr [rip + {hot} + {metas}]",
                meta = inout(reg) offset => meta,
                hot = sym HOT,
                metas = const offsets::METAS,
                options(pure, readonly, nostack)
            );
            // Said to the compiler, which else looks for NULL.
            core::hint::assert_unchecked(!meta.is_null());
        }
        meta
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer)))))]
mod words {
    use super::super::Meta;
    use super::HOT;

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
