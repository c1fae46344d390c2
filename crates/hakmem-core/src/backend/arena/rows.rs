//! The rows: hints in which segments there are free or dirty slots, as bits in two levels.
//!
//! Rules
//! 1. A row is a hint (`proto::hints`): it may name a segment that has no such slot any more.
//! 2. Only groups in use have rows. The summary says in which of them a row has bits.

use super::layout::summary_words;
use super::{Arena, GROUP, take_lowest};
use crate::backend::nodes::Groups;
use crate::base::sync::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use crate::proto::hints;

impl Arena {
    /// The summary's word for group `group` in `row`, and the group's bit in it.
    pub(super) fn summary(&self, row: usize, group: usize) -> (&'static AtomicU64, u64) {
        let words = summary_words(self.reserved.load(Relaxed));
        let at = self.summary.load(Relaxed).wrapping_add(row * words + group / 64);
        // SAFETY: `group` is in use, by the callers' checks, and `row` is a row of the summary, so
        // the word lies in the summary. It was made accessible with the first group, and stays so
        // for ever.
        (unsafe { &*at }, 1 << (group % 64))
    }

    /// Lists a segment in `row`.
    pub fn list(&self, row: usize, segment: usize) {
        let (group, bit) = self.group_of(segment);
        let (summary, its) = self.summary(row, segment / GROUP);
        hints::list(&group.rows[row], bit, summary, its);
    }

    /// Takes a segment out of `row`.
    pub fn unlist(&self, row: usize, segment: usize) {
        let (group, bit) = self.group_of(segment);
        hints::unlist(&group.rows[row], bit);
    }

    /// The segments of `wanted` groups that were listed in `row` a moment ago, lowest first.
    /// O(groups in use / 64 + segments listed).
    pub fn listed(&'static self, row: usize, wanted: Groups) -> Listed {
        let in_use = self.groups().len();
        Listed { arena: self, row, wanted, in_use, base: 0, groups: 0, group: 0, segments: 0 }
    }

    /// A group's bits in `row`.
    pub(super) fn row_of(&self, row: usize, group: usize) -> u64 {
        let Some(g) = self.groups().get(group) else { return 0 };
        let (summary, its) = self.summary(row, group);
        hints::in_row(&g.rows[row], summary, its)
    }
}

/// The iterator of [`Arena::listed`]. Not made of adapters: their code would lie apart from what
/// runs at the start.
pub struct Listed {
    arena: &'static Arena,
    row: usize,
    wanted: Groups,
    in_use: usize,
    /// The first group of the next word of the summary.
    base: usize,
    /// The bits that are left of the last word.
    groups: u64,
    /// The last group, and the bits that are left of its row.
    group: usize,
    segments: u64,
}

impl Iterator for Listed {
    type Item = usize;

    #[unsafe(link_section = ".text.hot.hakmem")]
    fn next(&mut self) -> Option<usize> {
        while self.segments == 0 {
            while self.groups == 0 {
                if self.base >= self.in_use {
                    return None;
                }
                let (word, _) = self.arena.summary(self.row, self.base);
                self.groups = word.load(SeqCst) & self.wanted.0;
                self.base += 64;
            }
            self.group = self.base - 64 + take_lowest(&mut self.groups);
            self.segments = self.arena.row_of(self.row, self.group);
        }
        Some(self.group * GROUP + take_lowest(&mut self.segments))
    }
}
