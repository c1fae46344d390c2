//! Reads of the first arena's bounds (`HOT`) for the fast path of `free`.
//!
//! The thread that makes the first arena writes the four words of `HOT`, and a thread that gives up
//! the arena's end lowers the limits. Other threads may be in `free` at that moment. They read
//! without a lock.
//!
//! Rules
//! 1. No read here is a data race in Rust's model. All writes are atomic stores. Each
//!    read is one aligned load of eight bytes in assembly, which acts as a relaxed atomic load. For
//!    checkers it is a relaxed atomic load. No read is plain: a plain read would race with the
//!    writer.
//! 2. `pure` and `readonly` let the compiler merge two such reads or drop one. It may do the same
//!    with relaxed loads.
//! 3. A reader may see any mixture of old and new words. Each mixture is harmless:
//!    - Old `data`: the distance of every pointer is larger than any limit. So nothing is let in.
//!    - New `data`, old limits: the limits are zero. So nothing is let in.
//!    - New `data`, limits from before or after a tail was given up: only addresses that the arena
//!      had are let in. `backend::arena::space` says why the tail's addresses do no harm.
//!    - Old `metas`: only a thread with a block of the arena uses `metas`. It got the block,
//!      directly or by way of other threads, from the thread that wrote `metas`. So it sees the new
//!      one.
//! 4. Every pointer that is not let in takes the slow path, which finds out the truth.
//!
//! The reason for assembly: x86-64 compares with a word in memory by one instruction, but the
//! compiler makes two of a comparison with an atomic load. That would cost `free` 6 instructions
//! more. On aarch64 the compiler would split `HOT` into its words, unless assembly names it. `free`
//! would then need the address of each word.

use super::Meta;
use crate::backend::arena::HOT;
use crate::proto::bounds::offsets;

#[cfg(all(target_arch = "x86_64", not(any(miri, shuttle, sanitizer))))]
mod words {
    use super::super::Meta;
    use super::{HOT, offsets};
    use core::arch::asm;

    /// The distance of an address from `data`.
    #[inline(always)]
    pub fn distance(address: usize) -> usize {
        let distance: usize;
        // SAFETY: reads an aligned word of the static `HOT`, as a relaxed load would (rules 1 and
        // 2).
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

    /// True if `distance` is below the limit that lies `LIMIT` bytes into the bounds.
    #[inline(always)]
    pub fn is_below<const LIMIT: usize>(distance: usize) -> bool {
        // SAFETY: reads an aligned word of the static `HOT`, as a relaxed load would (rule 1).
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

    /// The address `offset` bytes behind `metas`.
    #[inline(always)]
    pub fn meta(offset: usize) -> *const Meta {
        let meta;
        // SAFETY: reads an aligned word of the static `HOT`, as a relaxed load would (rules 1 and
        // 2).
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

#[cfg(all(target_arch = "aarch64", not(any(miri, shuttle, sanitizer))))]
mod words {
    use super::super::Meta;
    use super::{HOT, offsets};
    use core::arch::asm;

    /// The word that lies `OFFSET` bytes into the bounds.
    #[inline(always)]
    fn word<const OFFSET: usize>() -> usize {
        let (page, word): (usize, usize);
        // SAFETY: the first instruction computes an address. The compiler merges all such.
        unsafe {
            asm!("adrp {page}, {hot}", page = out(reg) page, hot = sym HOT,
                options(pure, nomem, nostack, preserves_flags));
        }
        // SAFETY: reads an aligned word of the static `HOT`, as a relaxed load would (rules 1 and
        // 2).
        unsafe {
            asm!(
                "ldr {word}, [{page}, :lo12:{hot} + {offset}]",
                word = lateout(reg) word,
                page = in(reg) page,
                hot = sym HOT,
                offset = const OFFSET,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        word
    }

    /// The distance of an address from `data`.
    #[inline(always)]
    pub fn distance(address: usize) -> usize {
        address.wrapping_sub(word::<{ offsets::DATA }>())
    }

    /// True if `distance` is below the limit that lies `LIMIT` bytes into the bounds.
    #[inline(always)]
    pub fn is_below<const LIMIT: usize>(distance: usize) -> bool {
        distance < word::<LIMIT>()
    }

    /// The address `offset` bytes behind `metas`.
    #[inline(always)]
    pub fn meta(offset: usize) -> *const Meta {
        core::ptr::with_exposed_provenance(word::<{ offsets::METAS }>().wrapping_add(offset))
    }
}

#[cfg(any(miri, shuttle, sanitizer))]
mod words {
    use super::super::Meta;
    use super::{HOT, offsets};

    /// The distance of an address from `data`.
    pub fn distance(address: usize) -> usize {
        address.wrapping_sub(HOT.data())
    }

    /// True if `distance` is below the limit that lies `LIMIT` bytes into the bounds.
    pub fn is_below<const LIMIT: usize>(distance: usize) -> bool {
        distance < if LIMIT == offsets::LIMIT16 { HOT.limit16() } else { HOT.limit() }
    }

    /// The address `offset` bytes behind `metas`.
    pub fn meta(offset: usize) -> *const Meta {
        HOT.metas().wrapping_add(offset).cast()
    }
}

/// The distance in units of 16 bytes. None: not below the limit, or `address` is no multiple of 16.
/// The rotation moves the low four bits to the top. If one is set, the value exceeds any limit.
#[inline(always)]
pub fn offset16(address: usize) -> Option<usize> {
    let offset = words::distance(address).rotate_right(4);
    words::is_below::<{ offsets::LIMIT16 }>(offset).then_some(offset)
}

/// The distance from the first slot. None: not below the limit.
#[inline(always)]
pub fn offset(address: usize) -> Option<usize> {
    let offset = words::distance(address);
    words::is_below::<{ offsets::LIMIT }>(offset).then_some(offset)
}

/// The metadata `offset` bytes behind that of the first slot.
///
/// # Safety
/// `offset` is that of a slot's metadata in the first arena. The calling thread has a block of that
/// arena, or has synchronised with the thread that made the arena.
#[inline(always)]
pub unsafe fn meta(offset: usize) -> *const Meta {
    let meta = words::meta(offset);
    // Without this the compiler would check the result of `lookup_first` for null.
    // SAFETY: by the caller's promise `metas` is the address of the metadata, and the sum lies in
    // the same map: not null.
    unsafe { core::hint::assert_unchecked(!meta.is_null()) };
    meta
}
