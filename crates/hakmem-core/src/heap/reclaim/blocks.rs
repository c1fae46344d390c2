//! A set of blocks of a page, by number.

/// The largest number of blocks of a page.
const MOST: usize = 64 << 10 >> 3;
const WORD: usize = u64::BITS as usize;

/// The bits of a word from `first` to before `end`, which is 64 at most.
fn bits(first: usize, end: usize) -> u64 {
    let below = |n: usize| u64::MAX.checked_shr((WORD - n) as u32).unwrap_or(0);
    below(end) & !below(first)
}

/// The set.
pub struct Blocks([u64; MOST / WORD]);

impl Blocks {
    pub fn new() -> Self {
        Self([0; MOST / WORD])
    }

    /// Adds block `i`. False: the set has it already.
    #[inline]
    pub fn add(&mut self, i: usize) -> bool {
        let (word, bit) = (&mut self.0[i / WORD], 1 << (i % WORD));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Removes the blocks from `first` to before `end`. Returns how many of them the set had.
    /// O((end - first) / 64).
    pub fn remove(&mut self, first: usize, end: usize) -> u16 {
        let mut removed = 0;
        let mut at = first;
        while at < end {
            let (i, next) = (at / WORD, (at / WORD + 1) * WORD);
            let mask = bits(at % WORD, end.min(next) - i * WORD);
            removed += (self.0[i] & mask).count_ones() as u16;
            self.0[i] &= !mask;
            at = next;
        }
        removed
    }

    /// Calls `f` for each block before `end` that the set does not have. O(end / 64 + those).
    pub fn each_other(&self, end: usize, mut f: impl FnMut(usize)) {
        for (i, word) in self.0.iter().enumerate().take(end.div_ceil(WORD)) {
            let mut rest = !word & bits(0, (end - i * WORD).min(WORD));
            while rest != 0 {
                f(i * WORD + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }

    /// Calls `f` for each block of the set, from the last one on. All lie before `end`. O(end / 64
    /// + those).
    pub fn each_from_last(&self, end: usize, mut f: impl FnMut(usize)) {
        for (i, word) in self.0.iter().enumerate().take(end.div_ceil(WORD)).rev() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.ilog2() as usize;
                f(i * WORD + bit);
                rest &= !(1 << bit);
            }
        }
    }
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use crate::testing::Random;
    use std::vec::Vec;

    #[test]
    fn it_is_like_a_set_of_flags() {
        let mut random = Random(11);
        for _ in 0..2000 {
            let end = 1 + random.below(300);
            let (mut blocks, mut flags) = (Blocks::new(), std::vec![false; end]);
            for _ in 0..random.below(2 * end) {
                let i = random.below(end);
                assert_eq!(blocks.add(i), !flags[i]);
                flags[i] = true;
            }
            let first = random.below(end + 1);
            let last = first + random.below(end + 1 - first);
            let had = flags[first..last].iter().filter(|&&flag| flag).count();
            assert_eq!(usize::from(blocks.remove(first, last)), had);
            flags[first..last].fill(false);
            let (mut there, mut others) = (Vec::new(), Vec::new());
            blocks.each_from_last(end, |i| there.push(i));
            blocks.each_other(end, |i| others.push(i));
            assert!((0..end).rev().filter(|&i| flags[i]).eq(there));
            assert!((0..end).filter(|&i| !flags[i]).eq(others));
        }
    }
}
