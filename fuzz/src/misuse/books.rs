//! The books on what is live, which know where an error of the program may be felt.
//!
//! The allocator knows blocks by their page, so an error that it does not see stays among the
//! blocks of the page that it happened in: that memory is *tainted*, slot by slot. Whatever is
//! allocated there later shares its fate, and spreads it to the page it is of. All else must be as
//! if nothing had happened: no two blocks overlap, contents stay.

use super::child::note_odd_page;
use super::hands::Through;
use super::{BEHIND, HARDENED};
use crate::oracle::pattern;
use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

const SLOT: usize = 64 << 10;
/// Blocks above this lie in pages of several slots …
const ONE_SLOT: usize = (8 << 10) - BEHIND;
/// … of so many,
const SLOTS: usize = 8;
/// and blocks above this are no page's.
const PAGED: usize = (64 << 10) - BEHIND;

/// A block that the program has.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    pub start: usize,
    pub len: usize,
    pub through: Through,
    pub layout: Layout,
    seed: u64,
    tainted: bool,
}

impl Held {
    /// True if it is no page's, but has slots or segments of its own.
    pub fn is_whole(&self) -> bool {
        self.len > PAGED || self.layout.align() > 64 << 10
    }

    /// True if it is the same block, not another one in its place.
    pub fn is(&self, other: &Self) -> bool {
        self.seed == other.seed
    }

    fn end(&self) -> usize {
        self.start + self.len.max(1)
    }
}

#[derive(Default)]
pub struct Books {
    pub held: Vec<Held>,
    pub bytes: usize,
    /// The size of the blocks that were last seen in a slot.
    sizes: BTreeMap<usize, usize>,
    tainted: BTreeSet<usize>,
    /// Slots in which blocks were handed out since `watch`.
    touched: BTreeSet<usize>,
    seed: u64,
    /// Whether the program writes to blocks that are tainted.
    pub scribbles: bool,
}

/// What a program writes to a block that it should not have: no address, whichever word is taken
/// for one.
const SCRIBBLE: u8 = 0xF5;

fn slots(start: usize, len: usize) -> RangeInclusive<usize> {
    start / SLOT..=(start + len.max(1) - 1) / SLOT
}

fn has_any(set: &BTreeSet<usize>, of: RangeInclusive<usize>) -> bool {
    set.range(of).next().is_some()
}

impl Books {
    /// The slots of the page that `p` points into, or may point into.
    fn page(&self, p: usize) -> RangeInclusive<usize> {
        let slot = p / SLOT;
        let about = slot.saturating_sub(SLOTS - 1)..=slot.saturating_add(SLOTS - 1);
        let medium = |(_, &size): (&usize, &usize)| size > ONE_SLOT && size <= PAGED;
        if !self.sizes.contains_key(&slot) || self.sizes.range(about.clone()).any(medium) {
            about
        } else {
            slot..=slot
        }
    }

    /// From now on anything may happen in the page of `p`; `beyond`: in the slot behind it too, as
    /// a block that starts inside another one may reach there.
    pub fn taint(&mut self, p: usize, beyond: bool) {
        let page = self.page(p);
        let last = page.end().saturating_add(beyond.into());
        let around = self.held.iter().filter(|h| (h.start..h.end()).contains(&p));
        let around: Vec<_> = around.map(|h| slots(h.start, h.len)).collect();
        self.taint_slots(*page.start()..=last);
        around.into_iter().for_each(|s| self.taint_slots(s));
    }

    fn taint_slots(&mut self, new: RangeInclusive<usize>) {
        for held in &mut self.held {
            let own = slots(held.start, held.len);
            held.tainted |= own.start() <= new.end() && new.start() <= own.end();
        }
        self.tainted.extend(new);
    }

    /// Begins to note where blocks are handed out.
    pub fn watch(&mut self) {
        self.touched.clear();
    }

    /// True if blocks were handed out in the slots of `held` since `watch`.
    pub fn was_touched(&self, held: &Held) -> bool {
        has_any(&self.touched, slots(held.start, held.len))
    }

    /// Notes a block that was handed out, checks that it is nobody's, and fills it.
    pub fn admit(&mut self, start: usize, len: usize, layout: Layout, through: Through) {
        assert!(
            start.is_multiple_of(layout.align()) || self.tainted.contains(&(start / SLOT)),
            "{start:#x} is not aligned for {layout:?}"
        );
        let own = slots(start, len);
        let was_other = self.sizes.range(own.clone()).any(|(_, &size)| size != len);
        if !HARDENED && !len.is_multiple_of(16) && was_other {
            note_odd_page();
        }
        self.touched.extend(own.clone());
        let page = match len {
            ..=ONE_SLOT => own.clone(),
            _ if len <= PAGED => *own.start() + 1 - SLOTS..=own.end() + SLOTS - 1,
            _ => own.clone(),
        };
        if has_any(&self.tainted, page.clone()) {
            self.taint_slots(page);
        }
        self.sizes.extend(own.clone().map(|s| (s, len)));
        self.seed += 1;
        let held = Held {
            start,
            len,
            through,
            layout,
            seed: self.seed,
            tainted: has_any(&self.tainted, own.clone()),
        };
        if held.tainted {
            if self.scribbles {
                // SAFETY: the allocator handed it out; that it should not have is what the child
                // process is for.
                unsafe { pointer(start).write_bytes(SCRIBBLE, len.min(64)) };
            }
        } else {
            for other in self.held.iter().filter(|h| !h.tainted) {
                assert!(
                    held.end() <= other.start || other.end() <= start,
                    "{held:x?} overlaps {other:x?}"
                );
            }
            // SAFETY: the allocator handed it out; that it is nobody else's was just seen.
            unsafe { pattern::fill(pointer(start), len, held.seed) };
        }
        self.bytes += len;
        self.held.push(held);
    }

    /// Checks that zeroed memory is zero.
    pub fn check_zero(&self, start: usize, len: usize) {
        if has_any(&self.tainted, slots(start, len)) {
            return;
        }
        // SAFETY: the block has so many bytes, which the allocator initialised.
        let bytes = unsafe { std::slice::from_raw_parts(pointer(start), len) };
        assert_eq!(
            pattern::not_zero(bytes),
            None,
            "in the zeroed block {start:#x} of {len} bytes"
        );
    }

    /// Checks `len` bytes of what was in `held`, now at `start`.
    pub fn check(&self, held: &Held, start: usize, len: usize) {
        if held.tainted {
            return;
        }
        // SAFETY: a live block has so many bytes, and all were filled.
        let bytes = unsafe { std::slice::from_raw_parts(pointer(start), len.min(held.len)) };
        if let Some((at, found, expected)) = pattern::difference(bytes, held.seed) {
            panic!("byte {at} of {held:x?} at {start:#x} is {found:#x}, not {expected:#x}");
        }
    }

    /// Checks a block that is to be given up, and takes it out of the books.
    pub fn take(&mut self, at: usize) -> Option<Held> {
        let at = at.checked_rem(self.held.len())?;
        let held = self.held.swap_remove(at);
        self.bytes -= held.len;
        self.check(&held, held.start, held.len);
        Some(held)
    }

    /// Checks all that is live.
    pub fn check_all(&self) {
        for held in &self.held {
            self.check(held, held.start, held.len);
        }
    }
}

fn pointer(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}
