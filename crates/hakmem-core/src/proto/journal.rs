//! A journal: the last records of a series, of a few words each. One thread writes, many read.
//!
//! ```text
//! writer    number = 2 n + 1 · fence · words · number = 2 n + 2
//! reader    number? · words · fence · number?     both 2 n + 2: the words are the nth
//! ```
//!
//! Each record has a sequence number (a seqlock). So the writer waits for no reader, and a reader
//! changes nothing. A reader may be a signal handler that interrupts the writer. It may be another
//! process, which does by system calls what [`Journal::read`] does. A reader that meets a record
//! while the writer changes it gets no record.
//!
//! Rules
//! 1. There is one writer at a time. The callers of [`Journal::note`] see to that.
//! 2. The writer makes a record's number odd before it changes the words. When they are the words
//!    of the nth record, it makes the number 2 n + 2. The number 0: there was no record yet.
//! 3. A reader reads the number before and after the words. If both are 2 n + 2, the words are
//!    those of the nth record.
//! 4. The count `made` only says which records to read. A reader that sees a new count may still
//!    find the record that was there before.
//!
//! Model: `tests/loom/journal.rs`.

use crate::base::sync::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::{AtomicU64, const_new, each, fence};
use core::array;

/// A record, laid out for readers outside.
#[derive(Debug)]
#[repr(C)]
pub struct Record<const WORDS: usize> {
    /// The sequence number (rule 2).
    pub number: AtomicU64,
    /// What the writer noted.
    pub words: [AtomicU64; WORDS],
}

/// The last `KEPT` records. All zero bytes are an empty journal.
#[derive(Debug)]
#[repr(C)]
pub struct Journal<const KEPT: usize, const WORDS: usize> {
    /// How many records the writer has noted so far.
    pub made: AtomicU64,
    /// The nth record is in place n modulo `KEPT`.
    pub records: [Record<WORDS>; KEPT],
}

impl<const WORDS: usize> Record<WORDS> {
    const_new! {
        /// A record that was never written.
        pub fn new() -> Self {
            Self { number: AtomicU64::new(0), words: each![AtomicU64::new(0); WORDS] }
        }
    }
}

impl<const WORDS: usize> Default for Record<WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const KEPT: usize, const WORDS: usize> Default for Journal<KEPT, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const KEPT: usize, const WORDS: usize> Journal<KEPT, WORDS> {
    const_new! {
        /// An empty journal.
        pub fn new() -> Self {
            Self { made: AtomicU64::new(0), records: each![Record::new(); KEPT] }
        }
    }

    fn record(&self, nth: u64) -> &Record<WORDS> {
        &self.records[(nth % KEPT as u64) as usize]
    }

    /// Notes the next record, in the place of the oldest (rule 1). Wait-free. If a fork cuts the
    /// call short, the next record of the child overwrites this one.
    pub fn note(&self, words: [u64; WORDS]) {
        let nth = self.made.load(Relaxed);
        let record = self.record(nth);
        record.number.store(2 * nth + 1, Relaxed);
        // Release: a reader that sees any of the new words sees the odd number, or a later one,
        // when it reads the number again.
        fence(Release);
        for (to, word) in record.words.iter().zip(words) {
            to.store(word, Relaxed);
        }
        // Release: a reader that sees this number sees the words.
        record.number.store(2 * nth + 2, Release);
        self.made.store(nth + 1, Relaxed);
    }

    /// The nth record, from 0 on. Returns None if it is overwritten, not yet written, or just
    /// changing. Wait-free.
    pub fn read(&self, nth: u64) -> Option<[u64; WORDS]> {
        let record = self.record(nth);
        // Acquire: the words below are at least as new as the number.
        let first = record.number.load(Acquire);
        if first != 2 * nth + 2 {
            return None;
        }
        let words = array::from_fn(|i| record.words[i].load(Relaxed));
        // Acquire: if one of the words is of a later record, the load below finds another number.
        fence(Acquire);
        (record.number.load(Relaxed) == first).then_some(words)
    }

    /// How many records the writer has noted so far.
    pub fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }

    /// The records that are kept, oldest first, each with its place in the series, from 0 on.
    pub fn last(&self) -> impl Iterator<Item = (u64, [u64; WORDS])> {
        let made = self.made();
        (made.saturating_sub(KEPT as u64)..made).filter_map(|nth| Some((nth, self.read(nth)?)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_last_ones_are_kept_in_order() {
        let journal = Journal::<4, 2>::new();
        let kept = || journal.last().collect::<Vec<_>>();
        assert_eq!(kept(), []);
        journal.note([7, 8]);
        assert_eq!((kept(), journal.read(1)), ([(0, [7, 8])].into(), None));
        (1..10).for_each(|n| journal.note([n, n * n]));
        assert_eq!(kept(), [(6, [6, 36]), (7, [7, 49]), (8, [8, 64]), (9, [9, 81])]);
        assert_eq!((journal.read(5), journal.read(10), journal.made()), (None, None, 10));
    }

    /// A fork in the middle of a note leaves an odd number, before the count has risen.
    #[test]
    fn one_that_was_cut_short_is_left_out_and_overwritten() {
        let journal = Journal::<2, 1>::new();
        (0..3).for_each(|n| journal.note([n]));
        journal.records[1].number.store(2 * 3 + 1, Relaxed);
        journal.records[1].words[0].store(99, Relaxed);
        assert_eq!(journal.last().collect::<Vec<_>>(), [(2, [2])]);
        journal.note([3]);
        assert_eq!(journal.last().collect::<Vec<_>>(), [(2, [2]), (3, [3])]);
    }
}
