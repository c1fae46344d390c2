//! The journal of decisions in mode `learn`: the last ones, each with the figures that led to it.
//!
//! [`JOURNAL`] is the only record of them. Reports read it by [`last`]. `hakmem top` reads it from
//! another process, by the offsets that `stats::view` names. So both show the same. The journal
//! itself is a protocol of `proto`, with one writer and any number of readers. What this module
//! adds is pure: it converts a [`Decision`] to the words of a record and back.

#![cfg_attr(
    not(not(any(miri, shuttle))),
    allow(dead_code, reason = "there is no view from outside")
)]

use super::{Decision, What};
use crate::os;
use crate::proto::journal::{Journal, Record};
use core::mem::offset_of;

/// Decisions that the journal keeps.
pub const KEPT: usize = 64;
/// Words of a record: one for each [`Field`].
const WORDS: usize = 12;

/// The learner writes it under `moves::LOCK`, so there is one writer at a time.
pub static JOURNAL: Journal<KEPT, WORDS> = Journal::new();

/// The offset of the records in the journal, …
pub const RECORDS: usize = offset_of!(Journal<KEPT, WORDS>, records);
/// … and of its count of records.
pub const MADE: usize = offset_of!(Journal<KEPT, WORDS>, made);
/// Bytes of a record, …
pub const BYTES: usize = size_of::<Record<WORDS>>();
/// … and the offset of its number.
pub const NUMBER: usize = offset_of!(Record<WORDS>, number);

/// The words of a record.
#[derive(Debug, Clone, Copy)]
pub enum Field {
    /// When the decision was noted, in coarse milliseconds of the monotonic clock, whose 32 bits
    /// wrap.
    Time,
    /// The number of the [`What`].
    Option,
    /// This one and the following are the fields of [`Decision`] of the same name.
    AtMs,
    From,
    To,
    RoundMs,
    FromFaultUs,
    FromHoldUs,
    ToFaultUs,
    ToHoldUs,
    FromRating,
    ToRating,
}

const _: () = assert!(Field::ToRating as usize + 1 == WORDS);

impl Field {
    /// Its offset in a record.
    pub const fn offset(self) -> usize {
        offset_of!(Record<WORDS>, words) + self as usize * size_of::<u64>()
    }
}

/// A rating, which is near 1500. 0: the word is none.
fn rating(word: u64) -> i32 {
    i32::try_from(word).unwrap_or(0)
}

fn words(time: u32, d: &Decision) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let mut put = |field: Field, value: u64| words[field as usize] = value;
    put(Field::Time, time.into());
    put(Field::Option, d.what as u64);
    put(Field::AtMs, d.at_ms.into());
    put(Field::From, d.from.into());
    put(Field::To, d.to.into());
    put(Field::RoundMs, d.round_ms.into());
    put(Field::FromFaultUs, d.from_fault_us);
    put(Field::FromHoldUs, d.from_hold_us);
    put(Field::ToFaultUs, d.to_fault_us);
    put(Field::ToHoldUs, d.to_hold_us);
    put(Field::FromRating, d.from_rating.max(0) as u64);
    put(Field::ToRating, d.to_rating.max(0) as u64);
    words
}

/// The decision of a record's words. None: no option has that number.
fn decision(words: [u64; WORDS]) -> Option<Decision> {
    let of = |field: Field| words[field as usize];
    Some(Decision {
        what: *What::ALL.get(of(Field::Option) as usize)?,
        at_ms: of(Field::AtMs) as u32,
        from: of(Field::From) as u32,
        to: of(Field::To) as u32,
        round_ms: of(Field::RoundMs) as u32,
        from_fault_us: of(Field::FromFaultUs),
        from_hold_us: of(Field::FromHoldUs),
        to_fault_us: of(Field::ToFaultUs),
        to_hold_us: of(Field::ToHoldUs),
        from_rating: rating(of(Field::FromRating)),
        to_rating: rating(of(Field::ToRating)),
    })
}

/// Notes a decision. The caller holds `moves::LOCK`.
pub fn note(decision: &Decision) {
    JOURNAL.note(words(os::now_ms(), decision));
}

/// The last decisions, oldest first. Takes no lock.
pub fn last() -> impl Iterator<Item = Decision> {
    JOURNAL.last().filter_map(|(_, words)| decision(words))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_decision_survives_its_words() {
        for what in What::ALL {
            let d = Decision {
                at_ms: 1,
                what,
                from: 2,
                to: u32::MAX,
                from_fault_us: 3,
                from_hold_us: u64::MAX,
                to_fault_us: 4,
                to_hold_us: 5,
                round_ms: 6,
                from_rating: 1300,
                to_rating: 1700,
            };
            assert_eq!(decision(words(7, &d)), Some(d));
        }
        assert_eq!(decision([u64::MAX; WORDS]), None);
    }

    /// The words lie where programs outside read them.
    #[test]
    fn words_are_where_their_offsets_say() {
        let journal = Journal::<KEPT, WORDS>::new();
        for n in 0..3 {
            journal.note(core::array::from_fn(|i| 100 * n + 1 + i as u64));
        }
        let at = |offset: usize| {
            assert!(offset.is_multiple_of(8) && offset < size_of_val(&journal));
            // SAFETY: the offset is a multiple of 8 and inside the journal, as the assertion says.
            // Nobody changes the journal now.
            unsafe { core::ptr::from_ref(&journal).cast::<u64>().add(offset / 8).read() }
        };
        assert_eq!(at(MADE), 3);
        for n in 0..3 {
            let record = RECORDS + n * BYTES;
            assert_eq!(at(record + NUMBER), 2 * n as u64 + 2);
            for (field, word) in
                [(Field::Time, 1), (Field::Option, 2), (Field::From, 4), (Field::ToRating, 12)]
            {
                assert_eq!(at(record + field.offset()), 100 * n as u64 + word, "{field:?}");
            }
        }
    }
}
