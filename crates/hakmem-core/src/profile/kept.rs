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
//!    more. If a thread cannot have the books then (rule 2 of `profile`), the free waits in
//!    `WAITING` for the next change of the books. There is room for the frees of some buckets. A
//!    sample without room stays live in the profile. So it does in a child if another thread was
//!    between the two steps at the fork.

use super::asked::after_a_change;
use super::live::{Live, Zero};
use super::probe;
use super::sampler::Sampler;
use super::table::{Books, with_books, with_books_at_once};
use crate::base::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::proto::deferred;

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
        if with_books(|books| books.count_freed(self.bucket)).is_none() {
            wait(self.bucket, 1);
        }
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
        let count = |books: &mut Books| {
            samples.all().for_each(|(_, sample)| books.count_freed(sample.bucket));
        };
        if with_books(count).is_none() {
            samples.all().for_each(|(_, sample)| wait(sample.bucket, 1));
        }
        after_a_change();
    }
    samples.clear();
}

/// Frees that wait, by bucket.
static WAITING: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// True if some may wait.
static ANY_WAIT: AtomicBool = AtomicBool::new(false);

/// Has `frees` of samples of a bucket wait, if there is room.
#[cold]
fn wait(bucket: usize, frees: u32) {
    _ = deferred::put(&WAITING, &ANY_WAIT, bucket as u32, frees);
}

/// Counts the frees that wait, if the books are free. The caller holds no lock.
#[inline]
pub(super) fn count_waiting() {
    if ANY_WAIT.load(Relaxed) {
        count_them();
    }
}

#[cold]
#[inline(never)]
fn count_them() {
    deferred::take(&WAITING, &ANY_WAIT, |bucket, frees| {
        let count = |books: &mut Books| books.count_frees(bucket as usize, u64::from(frees));
        if !matches!(with_books_at_once(count), Ok(Some(()))) {
            wait(bucket as usize, frees);
        }
    });
}
