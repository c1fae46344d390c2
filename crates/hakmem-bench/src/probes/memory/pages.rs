//! How many pages of the system hold a live block: no allocator that leaves blocks where they are
//! can do with less.

use crate::storage;
use std::ptr::NonNull;

/// The pages counted are of this size.
const PAGE: usize = 4096;
const BITS: usize = usize::BITS as usize;

/// Bytes of all pages that hold a byte of these extents (address and size). The bitmap for that is
/// gone afterwards.
pub fn bytes<I: Iterator<Item = (usize, usize)>>(extents: impl Fn() -> I) -> u64 {
    let pages = |(at, size): (usize, usize)| at / PAGE..(at + size.max(1) - 1) / PAGE + 1;
    let (first, end) = extents()
        .map(pages)
        .fold((usize::MAX, 0), |(first, end), p| {
            (first.min(p.start), end.max(p.end))
        });
    if first >= end {
        return 0;
    }
    let mut bitmap = Bitmap::new(end - first);
    let new = extents()
        .flat_map(pages)
        .filter(|page| bitmap.set(page - first));
    (new.count() * PAGE) as u64
}

/// Bits in memory straight from the system, of which only what is set becomes resident.
struct Bitmap {
    words: NonNull<usize>,
    bits: usize,
}

impl Bitmap {
    fn new(bits: usize) -> Self {
        let words = storage::map(Self::bytes(bits), libc::MAP_NORESERVE);
        Self {
            words: words.expect("address space for a bitmap").cast(),
            bits,
        }
    }

    fn bytes(bits: usize) -> usize {
        bits.div_ceil(BITS) * size_of::<usize>()
    }

    /// Sets a bit; `false` if it was set.
    fn set(&mut self, bit: usize) -> bool {
        assert!(bit < self.bits);
        // SAFETY: the word of a bit below `bits` is in the mapping, which is this bitmap's own.
        let word = unsafe { self.words.add(bit / BITS).as_mut() };
        let before = *word;
        *word |= 1 << (bit % BITS);
        *word != before
    }
}

impl Drop for Bitmap {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size, and nothing refers to it any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), Self::bytes(self.bits)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_once_and_an_extent_may_have_several() {
        let of = |extents: &[(usize, usize)]| bytes(|| extents.iter().copied()) / PAGE as u64;
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[(8192, 1), (12_287, 1), (8200, 4088)]), 1);
        assert_eq!(of(&[(12_287, 2)]), 2);
        assert_eq!(of(&[(4096, 3 * PAGE + 1), (4 * PAGE, 10)]), 4);
        // Far from one another, as a heap and a mapping are.
        assert_eq!(of(&[(PAGE, 1), (1 << 46, 1)]), 2);
    }
}
