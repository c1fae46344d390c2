//! Copies to memory that is zero.

use super::at;

/// Copies `len` bytes to memory that reads as zero. What is zero there already stays untouched, so
/// that it takes no memory. O(len).
///
/// # Safety
/// Both ranges are multiples of 4 KiB, do not overlap, and belong to the caller, which may read the
/// first and write the second one.
pub unsafe fn copy_to_zeroes(from: usize, to: usize, len: usize) {
    const PIECE: usize = 4096;
    type Words = [u64; PIECE / size_of::<u64>()];
    for offset in (0..len).step_by(PIECE) {
        let (from, to) = (at(from + offset).cast::<Words>(), at(to + offset).cast::<Words>());
        // SAFETY: by the caller's promise the piece may be read, and nobody changes it.
        if unsafe { (*from).iter().any(|&word| word != 0) } {
            // SAFETY: the pieces do not overlap, and belong to the caller.
            unsafe { to.copy_from_nonoverlapping(from, 1) };
        }
    }
}
