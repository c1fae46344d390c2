//! What segments and their slots are used for.

use crate::arena::{self, Arena, PAGE, SEGMENT};
use crate::os;
use crate::page::{Kind, Meta};
use crate::profile::plain;
use crate::proto::slots::SLOTS;
use crate::sync::Ordering::Relaxed;

/// Segments by their use, and the slots of those that are divided into slots.
#[derive(Debug, Clone, Copy, Default)]
pub struct Census {
    /// Segments that are divided into slots.
    pub slotted_segments: u64,
    /// Segments of live whales.
    pub whale_segments: u64,
    /// Segments whose address space is kept for whales to grow into.
    pub reserve_segments: u64,
    /// Segments of the whale cache, or changing hands.
    pub cached_segments: u64,
    /// Segments that ask for huge pages.
    pub huge_segments: u64,
    /// Slots that hold blocks of classes.
    pub page_slots: u64,
    /// Slots of live large blocks.
    pub large_slots: u64,
    /// Slots that hold thread heaps.
    pub heap_slots: u64,
    /// Slots that heaps keep: empty pages, cached large blocks.
    pub kept_slots: u64,
    /// Free slots that the system has not got back.
    pub empty_slots: u64,
    /// Free slots that take no memory.
    pub unused_slots: u64,
}

fn head(arena: &Arena, segment: usize) -> &'static Meta {
    // SAFETY: metadata of used segments is accessible for ever; all its fields may be shared.
    unsafe { &*arena.meta(segment * (SEGMENT / PAGE)).cast::<Meta>() }
}

/// Counts; calls `on_page` with each page of blocks. O(slots in use).
#[inline(never)]
pub fn count(on_page: &mut dyn FnMut(&'static Meta)) -> Census {
    let mut census = Census::default();
    for arena in arena::all() {
        let mut after_whale = 0;
        for segment in arena.used() {
            if segment < after_whale {
                continue; // What lies in a whale has no kind of its own.
            }
            let head = head(arena, segment);
            if plain(head.kind()) == Kind::Whale {
                let span = head.span.load(Relaxed);
                let room = head.reserve.load(Relaxed).max(span);
                census.whale_segments += u64::from(span);
                census.reserve_segments += u64::from(room - span);
                census.huge_segments += u64::from(head.segment().huge.load(Relaxed)) * u64::from(span);
                after_whale = segment + room as usize;
            } else {
                census.add_slots(head, on_page);
            }
        }
    }
    census
}

impl Census {
    fn add_slots(&mut self, head: &'static Meta, on_page: &mut dyn FnMut(&'static Meta)) {
        let (active, empty) = head.segment().slots.states();
        let (mut slot, mut kept) = (0, 0);
        while slot < SLOTS {
            let meta = head.forward(slot);
            let bit = 1 << slot;
            let span = match plain(meta.kind()) {
                _ if active & bit == 0 => {
                    let dirty = u64::from(empty & bit != 0);
                    self.empty_slots += dirty;
                    self.unused_slots += 1 - dirty;
                    1
                }
                kind @ (Kind::Page | Kind::Sampled | Kind::Large) => {
                    let span = meta.span.load(Relaxed).clamp(1, SLOTS - slot);
                    if kind != Kind::Large {
                        self.page_slots += u64::from(span);
                        on_page(meta);
                    } else {
                        self.large_slots += u64::from(span);
                    }
                    span
                }
                Kind::Heaps => {
                    self.heap_slots += 1;
                    1
                }
                _ => {
                    kept += 1;
                    1
                }
            };
            slot += span;
        }
        self.huge_segments += u64::from(head.segment().huge.load(Relaxed));
        if kept == SLOTS {
            self.cached_segments += 1;
        } else {
            self.slotted_segments += 1;
            self.kept_slots += u64::from(kept);
        }
    }
}

/// Segments that are asked about one by one.
const ASKED: usize = 4096;

/// See the function of that name above this module.
pub fn resident_bytes() -> u64 {
    let page = os::page_size();
    let used: usize = arena::all().map(|arena| arena.used().count()).sum();
    let step = used.div_ceil(ASKED).max(1);
    let (mut asked, mut resident) = (0u64, 0u64);
    let segments = arena::all().flat_map(|arena| arena.used().map(move |segment| (arena, segment)));
    for (arena, segment) in segments.step_by(step) {
        let mut map = [0u8; SEGMENT / 4096];
        if os::resident(arena.page_address(segment * (SEGMENT / PAGE)), SEGMENT, &mut map) {
            asked += 1;
            resident += map[..SEGMENT / page].iter().filter(|&&b| b & 1 != 0).count() as u64 * page as u64;
        }
    }
    if asked == 0 { 0 } else { (u128::from(resident) * used as u128 / u128::from(asked)) as u64 }
}
