//! Sets of segments, as bits in two levels.
//!
//! Each group has a word for its 64 segments. Above it lie two bits for each group. FULL says that
//! the set has all segments of the group, whatever the word says. SOME says that the word counts.
//! One word of FULL covers 4096 segments. So a search passes a block of terabytes quickly, and
//! marking one is as quick.
//!
//! Rules
//! 1. A thread changes the sets only under the arena's lock.
//! 2. In the middle of a change, a set may have too many segments but never too few. The child of a
//!    fork may have a copy of that moment. At worst it takes a free segment for a used one.
//! 3. SOME is set before a bit of the word is set, and cleared after the last one is cleared.

use super::layout::summary_words;
use super::{Arena, GROUP, Group, ROWS};
use crate::base::sync::{AtomicU64, Ordering::Relaxed};

/// Rows of the summary for the two sets, behind the rows of the hints.
pub(super) const SET_ROWS: usize = 4;
/// The row of FULL for the set of used segments: bit i says that all segments of group i are used.
pub const FULL_ROW: usize = ROWS + 2;

/// One of the two sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    Used = 0,
    Committed = 1,
}

/// One of an arena's sets. Before the first group is in use it is empty, and its words are not
/// accessible.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    set: Set,
    groups: &'a [Group],
    some: &'a [AtomicU64],
    full: &'a [AtomicU64],
}

/// A word with the bits `from..to` set.
fn mask(from: usize, to: usize) -> u64 {
    debug_assert!(from < to && to <= GROUP);
    (u64::MAX >> (GROUP - (to - from))) << from
}

/// Splits a range of bits by words. Gives for each the word, its first bit, and the bit behind its
/// last.
fn by_words(from: usize, to: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (from / 64..to.div_ceil(64)).map(move |w| (w, from.max(w * 64) % 64, (to - w * 64).min(64)))
}

impl Arena {
    /// The set. It is empty before a group is in use.
    pub(super) fn bits(&self, set: Set) -> Bits<'static> {
        let groups = self.groups();
        let row = |row: usize| {
            let words = summary_words(self.reserved.load(Relaxed));
            let at = self.summary.load(Relaxed).wrapping_add(row * words);
            // SAFETY: a group is in use, so the summary is accessible, and stays so for ever. It
            // has this row, of `words` words, and no more groups are in use than were reserved.
            unsafe { core::slice::from_raw_parts(at, groups.len().div_ceil(64)) }
        };
        let (some, full) = if groups.is_empty() {
            (&[][..], &[][..])
        } else {
            (row(ROWS + set as usize), row(FULL_ROW + set as usize))
        };
        Bits { set, groups, some, full }
    }
}

impl Bits<'_> {
    fn word(&self, group: usize) -> &AtomicU64 {
        let group = &self.groups[group];
        if self.set == Set::Used { &group.used } else { &group.committed }
    }

    /// The segments of a group that are in the set, as bits.
    fn of_group(&self, group: usize) -> u64 {
        let is = |row: &[AtomicU64]| row[group / 64].load(Relaxed) >> (group % 64) & 1 != 0;
        if is(self.full) {
            u64::MAX
        } else if is(self.some) {
            self.word(group).load(Relaxed)
        } else {
            0
        }
    }

    /// The groups of word `w` with segments in the set. There may be a group too many.
    fn touched(&self, w: usize) -> u64 {
        self.some[w].load(Relaxed) | self.full[w].load(Relaxed)
    }

    /// The number of segments in the groups in use.
    pub(super) fn end(&self) -> usize {
        self.groups.len() * GROUP
    }

    /// The first segment of `from..to` in the set. O(words of 4096 segments + groups that are
    /// partly in the set).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn first_in(&self, from: usize, to: usize) -> Option<usize> {
        let to = to.min(self.end());
        let mut s = from;
        while s < to {
            let group = s / GROUP;
            let here = self.touched(group / 64) >> (group % 64);
            if here & 1 == 0 {
                // Go to the next group with a segment in the set, or to the next word.
                let skip = if here == 0 { 64 - group % 64 } else { here.trailing_zeros() as usize };
                s = (group + skip) * GROUP;
                continue;
            }
            let found = self.of_group(group) >> (s % GROUP);
            if found != 0 {
                return Some(s + found.trailing_zeros() as usize).filter(|&s| s < to);
            }
            s = (group + 1) * GROUP;
        }
        None
    }

    /// The first segment from `from` on that is not in the set. O(words of 4096 segments + groups
    /// that are partly in the set).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn first_out(&self, from: usize) -> usize {
        let mut s = from;
        while s < self.end() {
            let group = s / GROUP;
            let whole =
                (self.full[group / 64].load(Relaxed) >> (group % 64)).trailing_ones() as usize;
            if whole > 0 {
                s = (group + whole) * GROUP;
                continue;
            }
            let there = (self.of_group(group) >> (s % GROUP)).trailing_ones() as usize;
            if s % GROUP + there < GROUP {
                return s + there;
            }
            s = (group + 1) * GROUP;
        }
        s
    }

    /// The last segment of `from..to` in the set. O(words of 4096 segments + groups that are partly
    /// in the set).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn last_in(&self, from: usize, to: usize) -> Option<usize> {
        let mut to = to.min(self.end());
        while from < to {
            let group = (to - 1) / GROUP;
            let here = self.touched(group / 64) << (63 - group % 64);
            if here >> 63 == 0 {
                // Go back to the last group before with a segment in the set, or to the word
                // before.
                let skip = (here.leading_zeros() as usize).min(group % 64 + 1);
                to = (group + 1 - skip) * GROUP;
                continue;
            }
            let found = self.of_group(group) << (GROUP - 1 - (to - 1) % GROUP);
            if found != 0 {
                return Some(to - 1 - found.leading_zeros() as usize).filter(|&s| s >= from);
            }
            to = group * GROUP;
        }
        None
    }

    /// Puts segments into the set. Their groups are in use. O(words of 4096 segments).
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub(super) fn insert(&self, first: usize, n: usize) {
        let end = first + n;
        let (whole, whole_end) = (first.div_ceil(GROUP), end / GROUP);
        if whole < whole_end {
            for (w, from, to) in by_words(whole, whole_end) {
                self.full[w].fetch_or(mask(from, to), Relaxed);
            }
        }
        self.parts(first, end, |group, mask| {
            self.some[group / 64].fetch_or(1 << (group % 64), Relaxed);
            self.word(group).fetch_or(mask, Relaxed);
        });
    }

    /// Takes segments out of the set. O(words of 4096 segments + groups that were partly in the
    /// set).
    pub(super) fn remove(&self, first: usize, n: usize) {
        let end = first + n;
        let (whole, whole_end) = (first.div_ceil(GROUP), end / GROUP);
        if whole < whole_end {
            for (w, from, to) in by_words(whole, whole_end) {
                let out = mask(from, to);
                for bit in super::bits(self.some[w].load(Relaxed) & out) {
                    self.word(w * 64 + bit).store(0, Relaxed);
                }
                self.some[w].fetch_and(!out, Relaxed);
                self.full[w].fetch_and(!out, Relaxed);
            }
        }
        self.parts(first, end, |group, mask| {
            let (some, full, bit) =
                (&self.some[group / 64], &self.full[group / 64], 1 << (group % 64));
            if full.load(Relaxed) & bit != 0 {
                // From now on the word counts for this group (rules 2 and 3).
                some.fetch_or(bit, Relaxed);
                self.word(group).store(!mask, Relaxed);
                full.fetch_and(!bit, Relaxed);
            } else if self.word(group).fetch_and(!mask, Relaxed) & !mask == 0 {
                some.fetch_and(!bit, Relaxed);
            }
        });
    }

    /// Calls `f` for each group of which `first..end` covers only a part, with the bits of that
    /// part.
    #[inline(always)]
    fn parts(&self, first: usize, end: usize, f: impl Fn(usize, u64)) {
        let (left, right) = (first / GROUP, (end - 1) / GROUP);
        if left == right {
            if end - first < GROUP {
                f(left, mask(first % GROUP, end - left * GROUP));
            }
            return;
        }
        if !first.is_multiple_of(GROUP) {
            f(left, mask(first % GROUP, GROUP));
        }
        if !end.is_multiple_of(GROUP) {
            f(right, mask(0, end % GROUP));
        }
    }

    /// The number of segments of `from..to` in the set. O(words of 4096 segments + groups that are
    /// partly in the set).
    pub(super) fn count(&self, from: usize, to: usize) -> usize {
        let (mut s, mut count) = (from, 0);
        while let Some(found) = self.first_in(s, to) {
            s = self.first_out(found).min(to);
            count += s - found;
        }
        count
    }
}
