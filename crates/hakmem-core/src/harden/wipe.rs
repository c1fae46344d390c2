//! Wiping: a free block is zero, but for its link. Large blocks are wiped at their beginning only.

/// So many bytes of a block are wiped and checked.
pub const MOST: usize = 4 << 10;

/// Zeroes the first bytes of a block.
///
/// # Safety
/// The caller has `bytes` bytes at `p`.
#[inline(always)]
pub unsafe fn wipe(p: *mut u8, bytes: usize) {
    // SAFETY: the caller promises the same.
    unsafe { p.write_bytes(0, bytes.min(MOST)) };
}

/// The offset of the first byte of a wiped block that is not zero, from `from` on. Both numbers are
/// multiples of 8.
///
/// # Safety
/// The caller has `bytes` bytes at `p`, which is aligned to 8.
#[inline(always)]
pub unsafe fn written(p: *mut u8, from: usize, bytes: usize) -> Option<usize> {
    let words = p.wrapping_add(from).cast::<u64>();
    let count = (bytes.min(MOST) - from) / 8;
    // SAFETY: the words lie in the block, which the caller has.
    let word = |i: usize| unsafe { words.wrapping_add(i).read() };
    let mut sum = 0;
    for i in 0..count {
        sum |= word(i);
    }
    if sum == 0 {
        return None;
    }
    let i = (0..count).find(|&i| word(i) != 0)?;
    Some(from + i * 8 + word(i).trailing_zeros() as usize / 8)
}
