//! Wiping: a free block is zero, but for its link. Large blocks are wiped at their beginning only.

/// So many bytes of a block are wiped and checked.
pub const MOST: usize = 4 << 10;
/// Up to so many bytes a loop is faster than a call.
const SHORT: usize = 256;
/// Bytes of a vector. All numbers of bytes here are multiples of it, and so are addresses.
const VECTOR: usize = 16;

/// Zeroes the first bytes of a block.
///
/// # Safety
/// The caller has `bytes` bytes at `p`. Both are multiples of 16.
#[inline(always)]
pub unsafe fn wipe(p: *mut u8, bytes: usize) {
    // SAFETY: the caller has `bytes` bytes from `p` on, and no more than these are written.
    unsafe {
        if bytes > SHORT || bytes == 0 {
            p.write_bytes(0, bytes.min(MOST));
        } else {
            wipe_short(p, bytes);
        }
    }
}

/// The compiler makes a call of a loop that writes zeroes, so this one is assembly.
///
/// # Safety
/// As [`wipe`]; `bytes` is not 0.
#[cfg(all(target_arch = "x86_64", not(any(miri, sanitizer))))]
#[inline(always)]
unsafe fn wipe_short(p: *mut u8, bytes: usize) {
    // SAFETY: the loop writes from `p` to before `p + bytes`, which the caller has.
    unsafe {
        core::arch::asm!(
            "xorps {zero}, {zero}",
            "2:",
            "movaps xmmword ptr [{at} + {p}], {zero}",
            "add {at}, 16",
            "jne 2b",
            p = in(reg) p.wrapping_add(bytes),
            at = inout(reg) bytes.wrapping_neg() => _,
            zero = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// The same.
///
/// # Safety
/// The caller has `bytes` bytes at `p`, a multiple of 16 above 0.
#[cfg(all(target_arch = "aarch64", not(any(miri, sanitizer))))]
#[inline(always)]
unsafe fn wipe_short(p: *mut u8, bytes: usize) {
    // SAFETY: the loop writes from `p` to before `p + bytes`, which the caller has.
    unsafe {
        core::arch::asm!(
            "2:",
            "stp xzr, xzr, [{at}], #16",
            "subs {left}, {left}, #16",
            "b.ne 2b",
            at = inout(reg) p => _,
            left = inout(reg) bytes => _,
            options(nostack)
        );
    }
}

/// The same for checkers.
///
/// # Safety
/// The caller has `bytes` bytes at `p`, a multiple of 16 above 0.
#[cfg(any(miri, sanitizer))]
#[inline(always)]
unsafe fn wipe_short(p: *mut u8, bytes: usize) {
    // SAFETY: the caller has `bytes` bytes from `p` on.
    unsafe { p.write_bytes(0, bytes) };
}

/// True if the first bytes of a wiped block are zero. The first word is left out: it was a link.
///
/// # Safety
/// The caller has `bytes` bytes at `p`, a multiple of 16 from 16 on, or 8 more. `p` is aligned to
/// 16.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub unsafe fn is_wiped(p: *mut u8, bytes: usize) -> bool {
    use core::arch::x86_64::*;
    let end = p.wrapping_add(bytes.min(MOST) & !(VECTOR - 1)).cast::<__m128i>();
    // SAFETY: the vectors lie in the block, which the caller has. x86-64 has these instructions.
    unsafe {
        let vector = |at: *mut __m128i, i: usize| _mm_load_si128(at.wrapping_add(i));
        let mut next = p.cast::<__m128i>();
        let mut sum = _mm_srli_si128::<8>(vector(next, 0));
        next = next.wrapping_add(1);
        // Four at a time take half the time of one at a time.
        while end.addr() - next.addr() >= 4 * VECTOR {
            let pairs = [
                _mm_or_si128(vector(next, 0), vector(next, 1)),
                _mm_or_si128(vector(next, 2), vector(next, 3)),
            ];
            sum = _mm_or_si128(sum, _mm_or_si128(pairs[0], pairs[1]));
            next = next.wrapping_add(4);
        }
        while next < end {
            sum = _mm_or_si128(sum, vector(next, 0));
            next = next.wrapping_add(1);
        }
        _mm_movemask_epi8(_mm_cmpeq_epi8(sum, _mm_setzero_si128())) == 0xffff
    }
}

/// The same for Miri and other processors.
///
/// # Safety
/// The caller has `bytes` bytes at `p`, a multiple of 8 above 15.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub unsafe fn is_wiped(p: *mut u8, bytes: usize) -> bool {
    let words = (bytes.min(MOST) & !(VECTOR - 1)) / size_of::<u64>();
    // SAFETY: the words lie in the block, which the caller has.
    let word = |i: usize| unsafe { p.cast::<u64>().wrapping_add(i).read() };
    // Without a branch for each, so that the compiler makes vectors of them.
    (1..words).fold(0, |sum, i| sum | word(i)) == 0
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
