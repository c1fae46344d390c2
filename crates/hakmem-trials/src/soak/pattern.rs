//! What blocks contain: enough to notice a byte that somebody else wrote, cheap enough for blocks
//! of many megabytes.

use std::ptr::NonNull;

/// Every so many bytes of a block there is a word that only this place of this block has.
const STRIDE: usize = 256;

/// A block of the heap under test, with what it must contain. The owner of the value owns the
/// block.
#[derive(Debug)]
pub struct Block {
    /// Its start.
    pub start: NonNull<u8>,
    /// The bytes that were asked for.
    pub size: usize,
    mark: u64,
}

// SAFETY: a block is memory that nobody else reaches.
unsafe impl Send for Block {}

impl Block {
    /// Takes a fresh block and writes its contents.
    pub fn new(start: NonNull<u8>, size: usize, mark: u64) -> Self {
        let block = Self { start, size, mark };
        block.write_from(0);
        block
    }

    /// Says what is wrong with the contents, if anything is.
    pub fn check(&self) -> Result<(), String> {
        self.check_up_to(self.size)
    }

    /// The same of the first bytes alone.
    pub fn check_up_to(&self, end: usize) -> Result<(), String> {
        for at in places(self.size, 0).take_while(|at| at + 8 <= end) {
            // SAFETY: `places` gives offsets of whole words inside the block.
            let found = unsafe { self.start.add(at).cast::<u64>().read_unaligned() };
            if found != self.word(at) {
                return Err(format!(
                    "a block of {} bytes at {:p} has {found:#x} instead of {:#x} at offset {at}",
                    self.size,
                    self.start,
                    self.word(at)
                ));
            }
        }
        for at in self.size & !7..self.size.min(end) {
            // SAFETY: inside the block.
            let found = unsafe { self.start.add(at).read() };
            if found != self.mark as u8 {
                return Err(format!(
                    "a block of {} bytes at {:p} is damaged at offset {at}",
                    self.size, self.start
                ));
            }
        }
        Ok(())
    }

    /// Another size and place after a realloc: what was kept is checked, all else written.
    pub fn moved(self, start: NonNull<u8>, size: usize) -> Result<Self, String> {
        let kept = self.size.min(size);
        let old = Self {
            start,
            size: self.size,
            mark: self.mark,
        };
        // The words before the end of both; the odd bytes behind the last whole word only if
        // nothing was cut off.
        old.check_up_to(if size < self.size { kept & !7 } else { kept })?;
        let block = Self {
            start,
            size,
            mark: self.mark,
        };
        block.write_from(kept.saturating_sub(2 * STRIDE));
        Ok(block)
    }

    fn word(&self, at: usize) -> u64 {
        (self.mark ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn write_from(&self, from: usize) {
        for at in places(self.size, from) {
            // SAFETY: `places` gives offsets of whole words inside the block, which is ours.
            unsafe {
                self.start
                    .add(at)
                    .cast::<u64>()
                    .write_unaligned(self.word(at))
            };
        }
        for at in self.size & !7..self.size {
            // SAFETY: inside the block.
            unsafe { self.start.add(at).write(self.mark as u8) };
        }
    }
}

/// The offsets of the words of a block: all of a small one, and in larger ones every so manieth and
/// the last.
fn places(size: usize, from: usize) -> impl Iterator<Item = usize> {
    let step = if size <= STRIDE { 8 } else { STRIDE };
    let last = (size >= 8).then(|| (size & !7) - 8);
    let first = from.div_ceil(step) * step;
    (first..size.saturating_sub(7)).step_by(step).chain(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(bytes: &mut [u8], size: usize) -> Block {
        Block::new(NonNull::from(&mut bytes[0]), size, 42)
    }

    #[test]
    fn damage_at_either_end_is_found_at_all_sizes() {
        for size in [1, 7, 8, 9, 63, 256, 257, 300, 4096, 10_001] {
            let mut bytes = vec![0u8; size];
            let block = over(&mut bytes, size);
            assert_eq!(block.check(), Ok(()), "{size}");
            for at in [0, size - 1] {
                let mut bytes = vec![0u8; size];
                let block = over(&mut bytes, size);
                // SAFETY: inside `bytes`.
                unsafe { *block.start.add(at).as_ptr() ^= 1 };
                assert!(block.check().is_err(), "{size} at {at}");
            }
        }
    }

    #[test]
    fn contents_follow_a_block_that_grows_and_shrinks() {
        for (old, new) in [
            (100, 1000),
            (1000, 100),
            (777, 778),
            (5000, 300),
            (3, 9),
            (9, 3),
            (300, 260),
        ] {
            let mut bytes = vec![0u8; 5000];
            let block = over(&mut bytes, old);
            let start = block.start;
            let block = block.moved(start, new).expect("nothing was damaged");
            assert_eq!(block.check(), Ok(()), "{old} to {new}");
        }
    }
}
