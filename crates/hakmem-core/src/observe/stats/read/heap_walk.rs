//! The heap walk: reads what each segment and each slot is used for.

use crate::backend::arena::{self, Arena, SEGMENT, SLOT};
use crate::backend::page::{Kind, Meta};
use crate::base::sync::Ordering::Relaxed;
use crate::observe::stats::HeapWalk;
use crate::os;
use crate::profile::plain;
use crate::proto::slots::SLOTS;

fn head(arena: &Arena, segment: usize) -> &'static Meta {
    // SAFETY: `segment` was in use a moment ago. Metadata of such a segment stays accessible for
    // ever, and a shared reference to it is harmless: all its fields are cells or atomics.
    unsafe { &*arena.meta(segment * (SEGMENT / SLOT)).cast::<Meta>() }
}

/// What a run of slots is used for.
pub enum Held {
    /// Free, without memory.
    Clean,
    /// Free, and resident.
    Dirty,
    /// An empty page or a large block that a heap keeps, or a segment of the huge cache.
    Kept,
    /// A large block.
    Large(&'static Meta),
    /// A page of blocks.
    Page(&'static Meta),
}

/// Calls `f` with each segment in use: the metadata of its first slot, its address, and for a huge
/// block two numbers of segments: its own, and its own plus those kept for it to grow into.
/// O(segments in use).
pub fn each_segment(mut f: impl FnMut(&'static Meta, usize, Option<(u32, u32)>)) {
    for arena in arena::all() {
        let mut after_huge = 0;
        for segment in arena.used() {
            if segment < after_huge {
                continue; // The later segments of a huge block have no kind.
            }
            let head = head(arena, segment);
            let huge = (plain(head.kind()) == Kind::Huge).then(|| {
                let span = head.span.load(Relaxed);
                (span, head.reserve.load(Relaxed).max(span))
            });
            after_huge = segment + huge.map_or(0, |(_, room)| room as usize);
            f(head, arena.slot_address(segment * (SEGMENT / SLOT)), huge);
        }
    }
}

/// The runs of slots of a segment: the number of the first slot, how many slots, and their use.
pub fn slots(head: &'static Meta) -> impl Iterator<Item = (u32, u32, Held)> {
    let (active, empty) = head.segment().slots.states();
    let mut next = 0;
    core::iter::from_fn(move || {
        let slot = next;
        if slot >= SLOTS {
            return None;
        }
        // SAFETY: `head` belongs to the first slot of a segment, and `slot` is below SLOTS. So the
        // metadata lies in the same segment.
        let (meta, bit) = (unsafe { head.forward(slot) }, 1 << slot);
        let span = meta.span.load(Relaxed).clamp(1, SLOTS - slot);
        let (span, held) = match plain(meta.kind()) {
            _ if active & bit == 0 => (1, if empty & bit == 0 { Held::Clean } else { Held::Dirty }),
            Kind::Page | Kind::Sampled | Kind::ProgramPage => (span, Held::Page(meta)),
            Kind::Large => (span, Held::Large(meta)),
            _ => (1, Held::Kept),
        };
        next += span;
        Some((slot, span, held))
    })
}

/// Walks the heap and counts. Calls `on_page` with each page of blocks. O(slots in use).
#[inline(never)]
pub fn count(on_page: &mut dyn FnMut(&'static Meta)) -> HeapWalk {
    let mut heap_walk = HeapWalk::default();
    each_segment(|head, _, huge| {
        let thp = u64::from(head.segment().is_thp());
        if let Some((span, room)) = huge {
            heap_walk.huge_segments += u64::from(span);
            heap_walk.reserve_segments += u64::from(room - span);
            heap_walk.thp_segments += thp * u64::from(span);
        } else {
            heap_walk.thp_segments += thp;
            heap_walk.add_slots(head, on_page);
        }
    });
    heap_walk
}

impl HeapWalk {
    fn add_slots(&mut self, head: &'static Meta, on_page: &mut dyn FnMut(&'static Meta)) {
        let (mut kept, mut unused) = (0, 0);
        for (_, span, held) in slots(head) {
            let of_use = match held {
                Held::Dirty => &mut self.dirty_slots,
                Held::Large(_) => &mut self.large_slots,
                Held::Page(page) => {
                    on_page(page);
                    &mut self.page_slots
                }
                Held::Clean => {
                    unused += span;
                    continue;
                }
                Held::Kept => {
                    kept += span;
                    continue;
                }
            };
            *of_use += u64::from(span);
        }
        // A segment of the huge cache may never have been divided into slots.
        if kept == SLOTS || unused == SLOTS {
            self.cached_segments += 1;
        } else {
            self.slotted_segments += 1;
            self.kept_slots += u64::from(kept);
            self.clean_slots += u64::from(unused);
        }
    }
}

/// The most segments that [`resident_bytes`] asks the system about: 8 GiB of them.
const ASKED: usize = 4096;

/// See `stats::resident_bytes`.
pub fn resident_bytes() -> u64 {
    let page = os::page_size();
    let used: usize = arena::all().map(|arena| arena.used().count()).sum();
    let step = used.div_ceil(ASKED).max(1);
    let (mut asked, mut resident) = (0u64, 0u64);
    let segments = arena::all().flat_map(|arena| arena.used().map(move |segment| (arena, segment)));
    let Some(map) = os::Pagemap::open_file() else { return 0 };
    for (arena, segment) in segments.step_by(step) {
        let mut pages = [os::Page::Absent; SEGMENT / 4096];
        let pages = &mut pages[..SEGMENT / page];
        if map.read(arena.slot_address(segment * (SEGMENT / SLOT)), pages) {
            asked += 1;
            resident += pages.iter().filter(|&&page| page == os::Page::Resident).count() as u64
                * page as u64;
        }
    }
    if asked == 0 { 0 } else { (u128::from(resident) * used as u128 / u128::from(asked)) as u64 }
}
