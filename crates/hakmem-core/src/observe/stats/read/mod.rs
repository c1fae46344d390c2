//! Reads the figures of the allocator.

pub mod class;
mod gauges;
mod heap;
pub mod heap_walk;
pub mod map;
pub mod process;

pub use crate::backend::arena::{SEGMENT as SEGMENT_BYTES, SLOT as SLOT_BYTES};
pub use crate::backend::foreign::SITES;
pub use crate::os::KINDS as SYSCALLS;
pub use crate::policy::learner::decisions::last as decisions;
pub use crate::policy::learner::moves::is_on as is_learning;

pub use gauges::gauges;

use self::class::Free;
#[cfg(feature = "reports")]
use super::Dear;
use super::{CLASSES, FirstTouch, Limit, ProgramHeap, Site, Snapshot, ThreadHeap};
use crate::backend::{first_touch, foreign, held};
use crate::heap::reclaim::parked;
use crate::heap::{Heap, all::all_heaps, pool, shared::SharedHeap};
#[cfg(feature = "reports")]
use crate::policy::Thp;
use crate::policy::learner::decisions::JOURNAL;
use crate::policy::limits;
use crate::program::{self, registry};
use crate::{purge, thread};

/// See [`Snapshot::take`].
pub fn take() -> Snapshot {
    let mut this = Snapshot::empty();
    // A signal handler interrupted the allocator in this thread: what its locks guard may be in
    // the middle of a change.
    if thread::holds_a_lock() {
        return take_from_outside();
    }
    // A fork waits for this lock for a moment. In its child no thread would let go of a heap that
    // is held here.
    let Some(_held) = purge::keep_away() else { return take_from_outside() };
    let mut free = Free::NONE;
    look(&mut this, &mut free);
    parked::each_page(|class, waiting| free.in_pages[class] += waiting);
    this.blocks = class::blocks(&free);
    this
}

/// See [`Snapshot::take_from_outside`].
pub fn take_from_outside() -> Snapshot {
    let mut this = Snapshot::empty();
    this.blocks = class::blocks(&Free::NONE);
    this.running = all_heaps().filter(|heap| pool::is_live(heap)).count() as u64;
    this.heap_walk = heap_walk::count(&mut |_| {});
    this
}

/// Reads the lists of this thread's heap and of the idle heaps, and their pages. It holds one idle
/// heap at a time: threads that begin meanwhile take the others. What such a thread then does is
/// not known, as of any thread that runs.
fn look(snapshot: &mut Snapshot, free: &mut Free) {
    for heap in all_heaps() {
        with_ours(heap, |held| {
            held.report_live();
            for class in 0..CLASSES {
                // SAFETY: `with_ours` says that this thread holds the heap. So no other thread
                // changes the heap's lists or writes to the blocks on them.
                free.listed[class] += unsafe { held.listed(class) };
                free.in_pages[class] += held.retired(class);
            }
        });
    }
    snapshot.heap_walk = heap_walk::count(&mut |page| {
        let owner = page.owner();
        if owner.is_null() || parked::is_owner(owner) {
            return;
        }
        // SAFETY: an owner that is none of parked pages is a heap. Heaps are never
        // freed.
        let heap = unsafe { &*owner.cast::<SharedHeap>() };
        with_ours(heap, |_| {
            // A page that the heap gave up meanwhile is not its to read.
            if page.owner() == owner {
                free.in_pages[usize::from(page.class.get())] += page.waiting();
            }
        });
    });
    let others = all_heaps().filter(|heap| pool::is_live(heap) && own(heap).is_none());
    snapshot.running = others.count() as u64;
}

/// Runs `f` with the heap for its holder, if that is this thread, or if nobody holds the heap.
fn with_ours(heap: &'static SharedHeap, f: impl FnOnce(&Heap)) {
    match own(heap) {
        Some(heap) => f(heap),
        None => pool::with_idle(heap, f),
    }
}

/// The heap for its holder, if it is this thread's own.
fn own(heap: &'static SharedHeap) -> Option<&'static Heap> {
    // SAFETY: this thread's word leads to the heap, so this thread holds it, until it ends.
    let holder = || unsafe { heap.holder() };
    (heap.has_front(thread::own_front()) && !heap.is_busy()).then(holder)
}

/// The figures of every thread heap there ever was, oldest last.
pub fn heaps() -> impl Iterator<Item = ThreadHeap> {
    all_heaps().map(heap::of)
}

/// The figures of the heaps that the program made and that have not ended, newest first.
pub fn program_heaps() -> impl Iterator<Item = ProgramHeap> {
    registry::used().map(program::ProgramHeap::read)
}

/// How often a block was allocated from a heap that the program made.
#[cfg_attr(not(feature = "reports"), allow(dead_code, reason = "a figure of reports"))]
pub fn program_allocations() -> u64 {
    registry::allocations()
}

/// The hard limit, what is held of it, and what it has refused.
pub fn limit() -> Limit {
    let hard = limits::hard();
    Limit {
        held: held::bytes() as u64,
        hard: (hard != usize::MAX).then_some(hard as u64),
        refused: held::refused() as u64,
    }
}

/// What the first touch of fresh memory costs.
#[cfg_attr(
    not(any(feature = "serde", feature = "reports")),
    allow(dead_code, reason = "figures of reports")
)]
pub fn first_touch() -> FirstTouch {
    let [system_page_ns, huge_page_ns] = first_touch::means();
    FirstTouch { system_page_ns, huge_page_ns }
}

/// What is dear here. None: neither, as on most machines.
#[cfg(feature = "reports")]
pub fn dear() -> Option<Dear> {
    if first_touch::is_dear() {
        return Some(Dear::SystemPages);
    }
    let is_ours = Thp::now() == Thp::Auto;
    (is_ours && first_touch::is_huge_dear()).then_some(Dear::HugePages)
}

/// Call sites that freed foreign pointers.
pub fn foreign_sites() -> impl Iterator<Item = Site> {
    (0..SITES).filter_map(|i| foreign::site(i).map(|(address, frees)| Site { address, frees }))
}

/// How many decisions there were so far.
pub fn decided() -> u64 {
    JOURNAL.made()
}
