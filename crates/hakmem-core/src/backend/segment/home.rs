//! The home of a heap: the segment that the heap claims from first, in a program of many heaps.
//!
//! Rules
//! 1. Only the holder of the heap claims from the home, and changes what the home counts. Any
//!    thread may read the counts.
//! 2. `TOTALS` learns of the counts in steps of `STEP` slots, and whenever the holder calls `tell`.
//!    `UNTOLD` is what passes of the purge have seen in between. A pass that looks while the holder
//!    tells may leave a heap's part of it wrong until the next pass.

use super::{TOTALS, TRIES, UNTOLD, claim_from, claim_somewhere, head_of, note_small, release_as};
use crate::backend::arena::{self, Arena, BINS, SLOT};
use crate::backend::nodes::{self, Groups};
use crate::backend::page::Meta;
use crate::base::counter::Counter;
use crate::base::sync::{AtomicI64, AtomicU32, Ordering::Relaxed};
use core::cell::Cell;
use core::ptr::null;

/// The segment that a heap claims from first, in a program of many heaps. If all took slots of the
/// fullest segment, each claim would wait for that segment's line of memory. All zero bytes: the
/// heap has no home, and takes none.
pub struct Home {
    head: Cell<*const Meta>,
    /// The heap's number among those with a home. 0: it has none.
    pub(super) number: Cell<u32>,
    /// The node of the heap's thread, or of its last one. Only the holder changes it.
    node: AtomicU32,
    /// False: the heap has not asked for its node, and counts as one of node 0.
    has_node: Cell<bool>,
    /// The change of the dirty slots that `TOTALS` does not have yet. Only heaps with a home let
    /// changes wait.
    dirty: Counter<i64>,
    /// The same for slots that are pages of small blocks.
    small: Counter<i64>,
    /// What `UNTOLD` has of `dirty`.
    known: AtomicI64,
}

/// A heap with a home tells `TOTALS` of its slots in steps of so many.
const STEP: u64 = 16;

/// Heaps begin to search at so many different segments.
const SPREAD: u32 = 16;

impl Home {
    /// From now on the heap has a home, unless `number` is 0. Others have other numbers.
    pub fn begin(&self, number: u32) {
        self.number.set(number);
    }

    /// The heap has a thread on `node` from now on. The holder calls this.
    pub fn settle(&self, node: usize) {
        self.has_node.set(true);
        if node != self.node() {
            self.node.store(node as u32, Relaxed);
            self.head.set(null());
        }
    }

    /// Asks for the node, if that is due.
    #[inline(always)]
    pub(super) fn ask_if_due(&self) {
        if !self.has_node.get() && nodes::is_asked() {
            self.ask();
        }
    }

    #[cold]
    #[inline(never)]
    fn ask(&self) {
        self.settle(nodes::here());
    }

    /// The node of the heap's thread, or of its last one. Any thread may ask.
    pub fn node(&self) -> usize {
        self.node.load(Relaxed) as usize
    }

    /// True if slots are of another node than the heap. Such slots go back to their segment, where
    /// threads of their node find them.
    #[inline(always)]
    pub fn is_far(&self, slot: &Meta) -> bool {
        nodes::are_several() && self.has_node.get() && self.node() != nodes::of(slot)
    }

    /// The groups that the heap searches first.
    #[inline(always)]
    pub(super) fn groups(&self) -> Groups {
        Groups::of(self.node())
    }

    /// [`release`] for the holder of the heap. True: `TOTALS` knows of these slots, so there may be
    /// work for a purge.
    ///
    /// # Safety
    /// As [`release`].
    #[inline(never)]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub unsafe fn release(&self, first: &Meta, n: u32) -> bool {
        // SAFETY: the caller owns the slots and gives them up, and their metadata says
        // `Kind::Free`: `release_as` asks for the same. The heap is the caller's, so its home is
        // too.
        unsafe { release_as(first, n, Some(self)) }
    }

    /// [`note_small`] for the holder of the heap.
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn note_small(&self, change: i32) {
        if self.number.get() == 0 {
            return note_small(change as isize);
        }
        self.small.add(change.into());
        if self.small.get().unsigned_abs() >= STEP {
            self.tell();
        }
    }

    /// True: `TOTALS` knows of it.
    #[inline]
    pub(super) fn note_dirty(&self, change: i32) -> bool {
        self.dirty.add(change.into());
        let tells = self.dirty.get().unsigned_abs() >= STEP;
        if tells {
            self.tell();
        }
        tells
    }

    /// Tells `TOTALS` of all changes. The holder calls this.
    #[cold]
    #[unsafe(link_section = ".text.hot.hakmem")]
    pub fn tell(&self) {
        let (dirty, small) = (self.dirty.get(), self.small.get());
        self.dirty.set(0);
        self.small.set(0);
        self.know(0);
        if dirty != 0 {
            TOTALS.dirty.fetch_add((dirty as isize * SLOT as isize) as usize, Relaxed);
        }
        if small != 0 {
            note_small(small as isize);
        }
    }

    /// Adds what the heap has not told yet to `UNTOLD`. Any thread may call this.
    pub fn look_at_untold(&self) {
        self.know(self.dirty.get());
    }

    fn know(&self, slots: i64) {
        if self.known.load(Relaxed) != slots {
            let change = slots - self.known.swap(slots, Relaxed);
            UNTOLD.fetch_add((change as isize * SLOT as isize) as usize, Relaxed);
        }
    }

    /// Bytes in dirty slots that `TOTALS` does not know of yet. Any thread may call this.
    pub fn untold_dirty_bytes(&self) -> i64 {
        self.dirty.get() * SLOT as i64
    }

    /// Claims slots of the home. None: there is none, or it has no room.
    pub(super) fn claim(&self, n: u32) -> Option<(&'static Meta, bool)> {
        // SAFETY: null, or the metadata of a segment, which is accessible for ever (`arena` rule
        // 4).
        let head = unsafe { self.head.get().as_ref() }?;
        let (arena, segment) = head.segment_in_arena();
        claim_from(arena, segment, n, |dirty| _ = self.note_dirty(-dirty))
    }

    /// Claims from a segment with a long free run, which becomes the home.
    pub(super) fn claim_another(&self, n: u32) -> Option<(&'static Meta, bool)> {
        let skip = (self.number.get() % SPREAD) as usize;
        let wanted = self.groups();
        let taken = |dirty: i32| _ = self.note_dirty(-dirty);
        let in_bin = |arena: &'static Arena, bin| {
            let mut listed = arena.listed(bin, wanted).skip(skip).take(TRIES);
            listed.find_map(|segment| claim_from(arena, segment, n, taken))
        };
        let bins = n.ilog2() as usize..BINS;
        let found = bins.rev().find_map(|bin| arena::all().find_map(|arena| in_bin(arena, bin)));
        let (meta, zero) = found.or_else(|| claim_somewhere(n, wanted, taken))?;
        let (arena, segment) = meta.segment_in_arena();
        self.head.set(head_of(arena, segment));
        Some((meta, zero))
    }
}
