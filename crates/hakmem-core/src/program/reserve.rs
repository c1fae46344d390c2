//! What a program heap has reserved: whole segments whose memory is resident, so that the heap
//! needs no system call while it lasts.
//!
//! Rules
//! 1. The heap's lock guards the table (`program` rule 1).
//! 2. The heap claimed all slots of a segment of the table. `free` has a bit for each slot that no
//!    page and no block of the heap has.

use super::{Locked, ProgramHeap, Refusal};
use crate::backend::arena::{SEGMENT, SLOT};
use crate::backend::page::Meta;
use crate::backend::segment;
use crate::os;
use crate::proto::slots::{SLOTS, run};
use core::cell::Cell;
use core::ptr::null;

/// The most segments that a heap reserves: 512 MiB.
pub const SEGMENTS: usize = 256;
/// The bytes of a step.
pub const SEGMENT_BYTES: u64 = SEGMENT as u64;

/// A segment of the reserve. All zero bytes are none.
struct Entry {
    head: Cell<*const Meta>,
    free: Cell<u32>,
}

/// The reserve of a heap. All zero bytes are an empty one.
pub struct Reserve {
    /// How many entries there are.
    len: Cell<usize>,
    entries: [Entry; SEGMENTS],
}

impl Reserve {
    /// True if nothing is reserved.
    pub(super) fn is_empty(&self) -> bool {
        self.len.get() == 0
    }

    /// The segments.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries[..self.len.get()].iter()
    }

    /// Takes `span` neighbouring slots. None: the reserve has no such run. O(segments).
    pub(super) fn take(&self, span: u32) -> Option<&'static Meta> {
        for entry in self.entries() {
            let Some(first) = first_run(entry.free.get(), span) else { continue };
            entry.free.set(entry.free.get() & !run(first, span));
            // SAFETY: the entry has the metadata of the first slot of a segment, which is
            // accessible for ever (`arena` rule 4), and the segment has slot `first`.
            return Some(unsafe { (*entry.head.get()).forward(first) });
        }
        None
    }

    /// Takes slots back. False: they are not of the reserve. O(segments).
    pub(super) fn give(&self, slots: &Meta, span: u32) -> bool {
        let head = slots.raw().cast_const().wrapping_sub(slots.slot() as usize);
        let Some(entry) = self.entries().find(|entry| core::ptr::eq(entry.head.get(), head)) else {
            return false;
        };
        entry.free.set(entry.free.get() | run(slots.slot(), span));
        true
    }
}

/// The first run of `span` set bits.
fn first_run(free: u32, span: u32) -> Option<u32> {
    (0..=SLOTS - span).find(|&first| free & run(first, span) == run(first, span))
}

impl ProgramHeap {
    /// Claims segments for `bytes` more bytes, and makes them resident. An error: the heap would
    /// have too many, or there is no memory. In the second case what was reserved stays. O(bytes).
    pub fn reserve(&'static self, bytes: usize) -> Result<(), Refusal> {
        let locked = self.lock()?;
        let more = bytes.div_ceil(SEGMENT);
        if more > SEGMENTS - self.reserve.len.get() {
            return Err(Refusal::Memory);
        }
        for _ in 0..more {
            locked.reserve_segment()?;
        }
        Ok(())
    }
}

impl Locked {
    fn reserve_segment(&self) -> Result<(), Refusal> {
        let reserve = &self.heap.reserve;
        let entry = reserve.entries.get(reserve.len.get()).ok_or(Refusal::Memory)?;
        let head = segment::claim_whole().ok_or(Refusal::Memory)?;
        self.note_slots(SEGMENT as i64);
        let figures = &self.heap.figures;
        figures.reserved.set(figures.reserved.get() + SEGMENT_BYTES);
        entry.head.set(head);
        entry.free.set(u32::MAX);
        reserve.len.set(reserve.len.get() + 1);
        if !os::populate(head.start().addr(), SEGMENT) {
            for at in (0..SEGMENT).step_by(os::page_size()) {
                // SAFETY: the heap has just claimed the segment, and nobody uses its memory. The
                // write faults the system page in.
                unsafe { head.start().wrapping_add(at).write_volatile(0) };
            }
        }
        Ok(())
    }

    /// Gives the free slots of the reserve back, for a heap that is deleted. Slots of routed blocks
    /// follow when these are freed.
    pub(super) fn end_reserve(&self) {
        let reserve = &self.heap.reserve;
        // A write to the length would make memory behind the heap's first page resident.
        if reserve.is_empty() {
            return;
        }
        for entry in reserve.entries() {
            let mut rest = entry.free.replace(0);
            while rest != 0 {
                let first = rest.trailing_zeros();
                let span = (rest >> first).trailing_ones();
                rest &= !run(first, span);
                // SAFETY: the heap claimed these slots of the segment that `head` begins, and
                // nothing of it is there any more.
                unsafe { segment::release((*entry.head.get()).forward(first), span) };
                self.note_slots(-i64::from(span) * SLOT as i64);
            }
            entry.head.set(null());
        }
        reserve.len.set(0);
        self.heap.figures.reserved.set(0);
    }
}
