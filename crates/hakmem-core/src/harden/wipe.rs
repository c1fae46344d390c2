//! Wiping: a free block is zero, but for its link and its mark (`fresh`). Large blocks are wiped at
//! their beginning only.

/// So many bytes of a block are wiped and checked.
pub const MOST: usize = 4 << 10;
/// Up to so many bytes there is no loop, so no branch that the processor predicts wrongly where
/// sizes vary.
const SHORT: usize = 128;
/// Up to so many bytes a loop is faster than a call of the C library.
const MIDDLE: usize = 1024;
/// Bytes of a vector. All numbers of bytes here are multiples of it, and so are addresses.
const VECTOR: usize = 16;
/// Bytes of a step of a loop.
const STEP: usize = 4 * VECTOR;

use vector::Vector;

/// The offsets of four pairs of vectors that cover `bytes` bytes, 32 to `SHORT`. Some are the same.
#[inline(always)]
fn short(bytes: usize) -> [usize; 4] {
    let end = bytes - 2 * VECTOR;
    [0, end.min(2 * VECTOR), end.min(4 * VECTOR), end]
}

/// Zeroes the first bytes of a block.
///
/// # Safety
/// The caller has `bytes` bytes at `p`. Both are multiples of 16, `bytes` is 32 at least.
#[inline(always)]
pub unsafe fn wipe(p: *mut u8, bytes: usize) {
    debug_assert!(bytes >= 2 * VECTOR && (p.addr() | bytes).is_multiple_of(VECTOR));
    // SAFETY: the caller has `bytes` bytes from `p` on, and no more than these are written.
    unsafe {
        if bytes <= SHORT {
            vector::clear_pairs(p, short(bytes));
        } else {
            wipe_long(p, bytes);
        }
    }
}

/// [`wipe`] of more than `SHORT` bytes.
///
/// # Safety
/// As [`wipe`].
#[inline(always)]
unsafe fn wipe_long(p: *mut u8, bytes: usize) {
    // SAFETY: the steps lie between `p` and `p + bytes`, which the caller has.
    unsafe {
        if bytes > MIDDLE {
            p.write_bytes(0, bytes.min(MOST));
            return;
        }
        // The last step may begin within the one before.
        let last = p.wrapping_add(bytes - STEP);
        let mut at = p;
        while at < last {
            vector::clear_four(at);
            at = at.wrapping_add(STEP);
        }
        vector::clear_four(last);
    }
}

/// True if the first bytes of a wiped block are zero. The first word is left out: it was a link.
///
/// # Safety
/// The caller has `bytes` bytes at `p`, which is aligned to 16, and there are 32 at least. What
/// lies behind the last multiple of 16 is not read.
#[inline(always)]
pub unsafe fn is_wiped(p: *mut u8, bytes: usize) -> bool {
    let bytes = bytes & !(VECTOR - 1);
    // SAFETY: the vectors lie in the block, which the caller has.
    unsafe {
        if bytes <= SHORT {
            // The vectors behind the first. Some are the same.
            let (rest, end) = (p.wrapping_add(VECTOR), bytes - 2 * VECTOR);
            let [a, b, c] = [1, 2, 3].map(|i| end.min(i * VECTOR));
            let or = |all, at| vector::or(all, rest.wrapping_add(at));
            let near = or(or(or(vector::upper(p), 0), a), b);
            let far = or(or(or(or(vector::ZERO, c), end - b), end - a), end);
            return vector::is_zero(vector::both(near, far));
        }
        is_wiped_long(p, bytes.min(MOST))
    }
}

/// [`is_wiped`] of more than `SHORT` bytes, a multiple of 16.
///
/// # Safety
/// As [`is_wiped`].
#[inline(always)]
unsafe fn is_wiped_long(p: *mut u8, bytes: usize) -> bool {
    // SAFETY: the steps lie between `p` and `p + bytes`, which the caller has.
    unsafe {
        // Four sums, as each addition waits for the one before.
        let step = |[a, b, c, d]: [Vector; 4], at: *mut u8| {
            [
                vector::or(a, at),
                vector::or(b, at.wrapping_add(VECTOR)),
                vector::or(c, at.wrapping_add(2 * VECTOR)),
                vector::or(d, at.wrapping_add(3 * VECTOR)),
            ]
        };
        let last = p.wrapping_add(bytes - STEP);
        let zero = vector::ZERO;
        let [_, b, c, d] = step([zero; 4], p);
        let (mut sums, mut at) = ([vector::upper(p), b, c, d], p.wrapping_add(STEP));
        while at < last {
            sums = step(sums, at);
            at = at.wrapping_add(STEP);
        }
        let [a, b, c, d] = step(sums, last);
        vector::is_zero(vector::both(vector::both(a, b), vector::both(c, d)))
    }
}

/// Vectors of 16 bytes.
#[cfg(all(target_arch = "x86_64", not(any(miri, sanitizer))))]
mod vector {
    use core::arch::x86_64::*;

    pub type Vector = __m128i;
    // SAFETY: any bits are a vector.
    pub const ZERO: Vector = unsafe { core::mem::transmute(0_u128) };

    /// Zeroes four vectors from `at` on.
    ///
    /// # Safety
    /// The caller has their bytes, and `at` is aligned to 16.
    #[inline(always)]
    pub unsafe fn clear_four(at: *mut u8) {
        // Assembly, as the compiler would make a call of a loop of stores.
        // SAFETY: writes 64 bytes, which the caller has.
        unsafe {
            core::arch::asm!(
                "movaps xmmword ptr [{at}], {zero}",
                "movaps xmmword ptr [{at} + 16], {zero}",
                "movaps xmmword ptr [{at} + 32], {zero}",
                "movaps xmmword ptr [{at} + 48], {zero}",
                at = in(reg) at,
                zero = in(xmm_reg) _mm_setzero_si128(),
                options(nostack, preserves_flags)
            );
        }
    }

    /// Zeroes two vectors at each of four offsets from `p`. The first offset is 0.
    ///
    /// # Safety
    /// The caller has their bytes. All addresses are multiples of 16.
    #[inline(always)]
    pub unsafe fn clear_pairs(p: *mut u8, [_, a, b, end]: [usize; 4]) {
        // SAFETY: writes vectors that the caller has.
        unsafe {
            core::arch::asm!(
                "movaps xmmword ptr [{p}], {zero}",
                "movaps xmmword ptr [{p} + 16], {zero}",
                "movaps xmmword ptr [{p} + {a}], {zero}",
                "movaps xmmword ptr [{p} + {a} + 16], {zero}",
                "movaps xmmword ptr [{p} + {b}], {zero}",
                "movaps xmmword ptr [{p} + {b} + 16], {zero}",
                "movaps xmmword ptr [{p} + {end}], {zero}",
                "movaps xmmword ptr [{p} + {end} + 16], {zero}",
                p = in(reg) p,
                a = in(reg) a,
                b = in(reg) b,
                end = in(reg) end,
                zero = in(xmm_reg) _mm_setzero_si128(),
                options(nostack, preserves_flags)
            );
        }
    }

    /// The second half of the 16 bytes at `at`.
    ///
    /// # Safety
    /// The caller has them, and `at` is aligned to 16.
    #[inline(always)]
    pub unsafe fn upper(at: *mut u8) -> Vector {
        // SAFETY: the caller has the bytes. x86-64 has these instructions.
        unsafe { _mm_srli_si128::<8>(_mm_load_si128(at.cast())) }
    }

    /// `all`, and the bits that are set in the 16 bytes at `at`.
    ///
    /// # Safety
    /// As [`upper`].
    #[inline(always)]
    pub unsafe fn or(all: Vector, at: *mut u8) -> Vector {
        // SAFETY: the caller has the bytes. x86-64 has these instructions.
        unsafe { _mm_or_si128(all, _mm_load_si128(at.cast())) }
    }

    /// The bits that are set in one of the two.
    #[inline(always)]
    pub fn both(a: Vector, b: Vector) -> Vector {
        // SAFETY: x86-64 has this instruction.
        unsafe { _mm_or_si128(a, b) }
    }

    #[inline(always)]
    pub fn is_zero(all: Vector) -> bool {
        // SAFETY: x86-64 has these instructions.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_setzero_si128())) == 0xffff }
    }
}

/// The same of two words, for checkers and other processors.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, sanitizer)))))]
mod vector {
    pub type Vector = u64;
    pub const ZERO: Vector = 0;

    /// Zeroes four vectors from `at` on.
    ///
    /// # Safety
    /// The caller has their bytes, and `at` is aligned to 16.
    #[inline(always)]
    pub unsafe fn clear_four(at: *mut u8) {
        #[cfg(all(target_arch = "aarch64", not(any(miri, sanitizer))))]
        // Assembly, as the compiler would make a call of a loop of stores.
        // SAFETY: writes 64 bytes, which the caller has.
        unsafe {
            core::arch::asm!(
                "stp xzr, xzr, [{at}]",
                "stp xzr, xzr, [{at}, #16]",
                "stp xzr, xzr, [{at}, #32]",
                "stp xzr, xzr, [{at}, #48]",
                at = in(reg) at,
                options(nostack, preserves_flags)
            );
        }
        #[cfg(not(all(target_arch = "aarch64", not(any(miri, sanitizer)))))]
        // SAFETY: the caller has the bytes.
        unsafe {
            at.cast::<[u64; 8]>().write([0; 8])
        };
    }

    /// Zeroes two vectors at each of four offsets from `p`.
    ///
    /// # Safety
    /// The caller has their bytes. All addresses are multiples of 16.
    #[inline(always)]
    pub unsafe fn clear_pairs(p: *mut u8, offsets: [usize; 4]) {
        for at in offsets {
            // SAFETY: the caller has the bytes.
            unsafe { p.wrapping_add(at).cast::<[u64; 4]>().write([0; 4]) }
        }
    }

    /// The second half of the 16 bytes at `at`.
    ///
    /// # Safety
    /// The caller has them, and `at` is aligned to 16.
    #[inline(always)]
    pub unsafe fn upper(at: *mut u8) -> Vector {
        // SAFETY: the caller has the bytes.
        unsafe { at.cast::<[u64; 2]>().read()[1] }
    }

    /// `all`, and the bits that are set in the 16 bytes at `at`.
    ///
    /// # Safety
    /// As [`upper`].
    #[inline(always)]
    pub unsafe fn or(all: Vector, at: *mut u8) -> Vector {
        // SAFETY: the caller has the bytes.
        let [a, b] = unsafe { at.cast::<[u64; 2]>().read() };
        all | a | b
    }

    /// The bits that are set in one of the two.
    #[inline(always)]
    pub fn both(a: Vector, b: Vector) -> Vector {
        a | b
    }

    #[inline(always)]
    pub fn is_zero(all: Vector) -> bool {
        all == 0
    }
}

/// The offset of the first byte of a wiped block that is not zero, from `from` on.
///
/// # Safety
/// The caller has `bytes` bytes at `p`.
#[cold]
pub unsafe fn written(p: *mut u8, from: usize, bytes: usize) -> Option<usize> {
    // SAFETY: the bytes lie in the block, which the caller has.
    (from..bytes.min(MOST)).find(|&i| unsafe { p.wrapping_add(i).read() } != 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    /// Each byte of each length: it is wiped, and it is seen. The first word is a link, and what
    /// lies behind the block is another's.
    #[test]
    fn each_byte_is_wiped_and_seen() {
        const MOST_TRIED: usize = MOST + 64;
        let lengths = (32..=1200).step_by(16).chain([2048, MOST - 16, MOST, MOST_TRIED]);
        for bytes in lengths {
            let mut memory = vec![0x5a_5a_5a_5a_5a_5a_5a_5a_u128; MOST_TRIED / 16 + 1];
            let p = memory.as_mut_ptr().cast::<u8>();
            let at = |i: usize| p.wrapping_add(i);
            let wiped = bytes.min(MOST);
            // SAFETY: the test's memory.
            unsafe {
                wipe(p, bytes);
                assert!((0..wiped).all(|i| at(i).read() == 0), "{bytes}");
                assert_ne!(at(bytes).cast::<u64>().read(), 0, "{bytes}: not beyond the block");
                p.cast::<usize>().write(usize::MAX);
                assert!(is_wiped(p, bytes) && is_wiped(p, bytes + 8), "{bytes}");
                for i in (8..wiped).step_by(if cfg!(miri) { 61 } else { 1 }) {
                    at(i).write(1);
                    assert!(!is_wiped(p, bytes), "byte {i} of {bytes}");
                    assert_eq!(written(p, 8, bytes), Some(i));
                    at(i).write(0);
                }
            }
        }
    }
}
