//! A journal: the last so many of a series of records of a few words each, for readers that its writer knows nothing of.
//!
//! Each record has a sequence number about it (a seqlock), so that writing waits for nobody and reading changes nothing:
//! readers may be many, interrupt the writer, or be other processes, which do by system calls what [`Journal::read`] does.
//! One that comes upon a record while it changes goes without it.
//!
//! Rules
//! 1. There is one writer at a time; that is its caller's care.
//! 2. A record's number is odd while its words change, and 2 n + 2 once they are those of the nth; 0: it was never written.
//! 3. What was read of a record between two looks at its number is the nth if both looks found 2 n + 2.
//! 4. The count only says where to look: who sees it rise may still find the record of before.

use crate::base::sync::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::{AtomicU64, const_new, each, fence};
use core::array;

/// A record, laid out for readers outside.
#[derive(Debug)]
#[repr(C)]
pub struct Record<const WORDS: usize> {
    /// Rule 2.
    pub number: AtomicU64,
    /// What was noted.
    pub words: [AtomicU64; WORDS],
}

/// The last `KEPT` records. All zero bytes are an empty journal.
#[derive(Debug)]
#[repr(C)]
pub struct Journal<const KEPT: usize, const WORDS: usize> {
    /// How many there were so far.
    pub made: AtomicU64,
    /// The nth is in place n modulo `KEPT`.
    pub records: [Record<WORDS>; KEPT],
}

impl<const WORDS: usize> Record<WORDS> {
    const_new! {
        /// One that was never written.
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
        /// An empty one.
        pub fn new() -> Self {
            Self { made: AtomicU64::new(0), records: each![Record::new(); KEPT] }
        }
    }

    fn record(&self, nth: u64) -> &Record<WORDS> {
        &self.records[(nth % KEPT as u64) as usize]
    }

    /// Notes the next record, in the place of the oldest (rule 1). Wait-free. One that was cut short, by a fork in the middle
    /// of it, is overwritten by the next.
    pub fn note(&self, words: [u64; WORDS]) {
        let nth = self.made.load(Relaxed);
        let record = self.record(nth);
        record.number.store(2 * nth + 1, Relaxed);
        // Release: who sees any of the words sees the odd number, at its second look.
        fence(Release);
        for (to, word) in record.words.iter().zip(words) {
            to.store(word, Relaxed);
        }
        // Release: who sees the number sees the words.
        record.number.store(2 * nth + 2, Release);
        self.made.store(nth + 1, Relaxed);
    }

    /// The nth record, from 0 on. None: it is not there any more, or not yet, or is just being overwritten. Wait-free.
    pub fn read(&self, nth: u64) -> Option<[u64; WORDS]> {
        let record = self.record(nth);
        // Acquire: the words that were there with the number.
        let first = record.number.load(Acquire);
        if first != 2 * nth + 2 {
            return None;
        }
        let words = array::from_fn(|i| record.words[i].load(Relaxed));
        // Acquire: if one of the words is another's, the second look finds that.
        fence(Acquire);
        (record.number.load(Relaxed) == first).then_some(words)
    }

    /// How many were noted so far.
    pub fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }

    /// Those that are kept, oldest first, each with its number from 0 on.
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
