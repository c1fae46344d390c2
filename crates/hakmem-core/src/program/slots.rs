//! The slots of a heap. It takes them from its reserve or from a segment, and gives them back
//! there.
//!
//! Rules
//! 1. `adopt` sets the link before the heap hands out a block (`program` rule 2).
//! 2. `close` ends a page before its slots go back (`page` rule 2).

use super::{Locked, Refusal, Way};
use crate::backend::arena::SLOT;
use crate::backend::page::{Kind, Meta};
use crate::backend::segment;
use crate::base::sync::Ordering::Relaxed;

impl Locked {
    /// Makes the slots or segments of `head` the heap's.
    pub(super) fn adopt(&self, way: Way, head: &Meta, kind: Kind) {
        head.owner_word.clear();
        head.unfull_at.set(way as i32);
        head.remote_link.set(core::ptr::from_ref(self.heap).cast_mut().cast());
        head.set_kind(kind);
    }

    /// Ends a page or a larger block that is in no list and has no live block.
    pub(super) fn end(&self, head: &'static Meta) {
        match head.kind() {
            Kind::ProgramHuge => self.end_huge(head),
            _ => self.end_slots(head),
        }
    }

    /// Gives slots back: to the reserve if they are of it, else to their segment.
    fn end_slots(&self, head: &'static Meta) {
        let span = head.span.load(Relaxed);
        if head.kind() == Kind::ProgramPage {
            let used = i64::from(head.list.until_slow.get()) * i64::from(head.block_size.get());
            self.note_in_pages(-used);
        }
        head.close();
        if self.heap.reserve.give(head, span) {
            return;
        }
        self.note_slots(-i64::from(span) * SLOT as i64);
        // SAFETY: the heap claimed the slots, and no list of it has them. `close` ended them.
        unsafe { segment::release(head, span) };
    }

    /// Takes `span` neighbouring slots: of the reserve if it has so many, else of a segment. The
    /// flag says whether they are zero.
    pub(super) fn take_slots(&self, span: u32) -> Result<(&'static Meta, bool), Refusal> {
        if let Some(head) = self.heap.reserve.take(span) {
            return Ok((head, false));
        }
        let got = segment::claim_anywhere(span).ok_or(Refusal::Memory)?;
        self.note_slots(i64::from(span) * SLOT as i64);
        Ok(got)
    }
}
