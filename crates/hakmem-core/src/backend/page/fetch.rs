//! Fetching a page whose free list is about to be followed.
//!
//! A list leads through its page in the order of the frees. Each link lies in a line of cache of
//! its own, mostly. Where the next block is, is known once that line is there. So in memory that is
//! in no cache, a thread that follows a list waits for one line after the other. It takes little
//! longer to fetch the first line of each block of the page at once.

use super::Meta;
use crate::base::prefetch::prefetch_all;

/// The bytes of a line of cache.
const LINE: usize = 64;
/// A list is long if it has one block or more for each so many carved bytes of the page. These are
/// six lines, as a fetch brings lines of used blocks, too. And the program's own use of a large
/// block takes longer than the wait for its first line.
const LONG: usize = 6 * LINE;
/// A long list has at least so many blocks.
const LEAST: i32 = 16;

/// How many pages were fetched.
#[cfg(test)]
pub static FETCHED: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

/// True if it takes longer to follow a list of `length` blocks of `size` bytes than to fetch their
/// page, which has `carved`.
#[inline(always)]
fn is_long(length: i32, size: usize, carved: usize) -> bool {
    length >= LEAST && length as usize * LONG >= carved * size
}

impl Meta {
    /// True if it takes longer to follow a list of `length` blocks of the page than to fetch the
    /// page. Only who may write the first line of the metadata may ask (`page` rule 1).
    #[inline(always)]
    pub fn is_long(&self, length: i32) -> bool {
        is_long(length, self.block_size.get() as usize, self.carved.get() as usize)
    }

    /// Fetches the line in which each carved block begins. O(carved). Only who may write the first
    /// line of the metadata may call it (`page` rule 1).
    #[cold]
    #[inline(never)]
    pub fn fetch(&self) {
        #[cfg(test)]
        FETCHED.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        let (start, size) = (self.start(), self.block_size.get() as usize);
        let lines = (0..self.carved.get() as usize * size).step_by(size.max(LINE));
        prefetch_all(lines.map(|offset| start.wrapping_add(offset).cast_const()));
    }
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_long_if_it_has_a_block_for_six_lines() {
        for (size, carved, long) in [
            (16, 4096, 171),
            (32, 2048, 171),
            (64, 1024, 171),
            (128, 512, 171),
            (384, 40, 40),
            (16, 40, 16),
        ] {
            assert!(is_long(long, size, carved) && !is_long(long - 1, size, carved), "{size}");
            assert!(!is_long(0, size, carved) && !is_long(-1, size, carved), "{size}");
        }
        assert!(!is_long(63, 1024, 64), "the program touches more lines of such a block itself");
    }
}
