//! Samples that their heaps keep: the blocks of program heaps.
//!
//! Such a sample lies where its block would lie without the profile. Its heap has a table of its
//! samples by address, under its own lock. The books have no more than the counts of the bucket.
//!
//! ```text
//! allocation:  the heap's lock: the block → the books: taken → the heap's lock: into the table
//! free:        the heap's lock: out of the table, and the block is free → the books: freed
//! ```
//!
//! Rules
//! 1. No thread waits for the books' lock while it holds that of a program heap, nor the other way
//!    round. So a signal handler may wait for either while its thread holds the other one.
//! 2. A sample counts as taken before its heap keeps it, and as freed once the heap keeps it no
//!    more. A thread that interrupted the books (rule 2 of `profile`) counts no free: that sample
//!    then stays live in the profile. So it does in a child if another thread was between the two
//!    steps at the fork.

use super::asked::after_a_change;
use super::live::{Live, Zero};
use super::probe;
use super::sampler::Sampler;
use super::table::with_books;

/// What a heap keeps of a sample. Its bucket never goes.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Sample {
    bucket: usize,
    size: u64,
    interval: u64,
}

// SAFETY: it consists of numbers.
unsafe impl Zero for Sample {}

/// The live samples of a heap.
pub type Samples = Live<Sample>;

impl Sample {
    /// Counts a sample of `size` bytes with the stack of the calling thread. None: the profile
    /// cannot have it. The caller has no lock of a program heap.
    pub fn count(sampler: &Sampler, size: u64, interval: u64) -> Option<Self> {
        let counted = sampler.with_scratch(|scratch| {
            let stack = scratch.follow();
            with_books(|books| {
                let bucket = books.bucket(size, interval, stack);
                match bucket {
                    Some(bucket) => books.count_taken(bucket),
                    None => books.lost += 1,
                }
                bucket
            })?
        });
        after_a_change();
        Some(Self { bucket: counted??, size, interval })
    }

    /// Says that the heap keeps the sample of the block at `at`.
    pub fn kept(self, at: usize) {
        probe::alloc(at, self.size, self.interval);
    }

    /// Takes back what [`Sample::count`] counted: the heap cannot keep it.
    #[cold]
    pub fn lost(self) {
        with_books(|books| {
            books.count_lost(self.bucket);
        });
        after_a_change();
    }

    /// The block at `at` is about to be free, and the heap keeps the sample no more. The caller may
    /// have the heap's lock, and calls [`Sample::freed`] without it.
    pub fn let_go(self, at: usize) {
        probe::free(at, self.size, self.interval);
    }

    /// Counts the free. The caller has no lock of a program heap.
    #[cold]
    pub fn freed(self) {
        with_books(|books| books.count_freed(self.bucket));
        after_a_change();
    }
}

/// Counts the frees of all samples of a table that no heap has any more, and gives its memory back.
/// The caller has no lock of a program heap. O(places of the table).
#[inline]
pub fn all_freed(samples: Samples) {
    if samples.has_memory() {
        end(samples);
    }
}

#[cold]
#[inline(never)]
fn end(mut samples: Samples) {
    if !samples.is_empty() {
        with_books(|books| samples.all().for_each(|(_, sample)| books.count_freed(sample.bucket)));
        after_a_change();
    }
    samples.clear();
}
