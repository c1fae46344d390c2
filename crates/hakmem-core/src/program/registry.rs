//! All program heaps, and the pool of those that have ended.
//!
//! Rules
//! 1. A heap that was made stays in the list for ever. One that has ended waits in the pool, and
//!    becomes another heap.
//! 2. The thread that changes a heap to FREE, under its lock, puts it into the pool, once.
//! 3. A handle is the address of a heap and the number of its generation. So a handle of a heap
//!    that has ended is told from that of the next one, but for one in 8191.

use super::scope::Scope;
use super::{FREE, LIVE, LOST, ORPHAN, ProgramHeap, Way};
use crate::backend::arena;
use crate::backend::owner::HEAP_SHIFT;
use crate::base::sync::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::heap::region;
use crate::profile;
use crate::proto::id_stack::IdStack;
use core::ptr::null_mut;

/// The newest heap. Each links to the one made before it.
#[unsafe(link_section = ".data.hakmem")]
pub static ALL: AtomicPtr<ProgramHeap> = AtomicPtr::new(null_mut());
#[unsafe(link_section = ".data.hakmem")]
static POOL: IdStack = IdStack::new();

/// Allocations of heaps whose memory became another heap.
#[unsafe(link_section = ".data.hakmem")]
static ENDED: AtomicU64 = AtomicU64::new(0);

/// The bits of a handle that are the generation.
const GENERATIONS: usize = (1 << HEAP_SHIFT) - 1;

/// The memory of all heaps that there ever were, newest first.
pub fn all() -> impl Iterator<Item = &'static ProgramHeap> {
    // Acquire: a heap's memory is zero before it is linked.
    let mut next = ALL.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: null, or a heap that `make` linked. No heap is unmapped (rule 1).
        let heap = unsafe { next.as_ref() }?;
        next = heap.next.load(Relaxed);
        Some(heap)
    })
}

/// The heaps that have not ended.
pub fn used() -> impl Iterator<Item = &'static ProgramHeap> {
    all().filter(|heap| heap.is_used())
}

/// How often a block was allocated from a program heap, also from one that has ended.
#[cfg_attr(not(feature = "reports"), allow(dead_code, reason = "a figure of reports"))]
pub fn allocations() -> u64 {
    let now = all().map(|heap| heap.figures.allocations.get());
    ENDED.load(Relaxed) + now.sum::<u64>()
}

/// Makes a heap. None: there is no memory for one. O(1).
pub fn make(name: &str, limit: Option<usize>) -> Option<&'static ProgramHeap> {
    let heap = pop().or_else(link)?;
    ENDED.fetch_add(heap.figures.allocations.get(), Relaxed);
    heap.figures.begin();
    heap.released.store(false, Relaxed);
    heap.figures.set_name(name);
    heap.set_limit(limit);
    if heap.generation.load(Relaxed) as usize & GENERATIONS == 0 {
        heap.generation.store(1, Relaxed);
    }
    // Release: who finds the heap live finds its name.
    heap.state.store(LIVE, Release);
    Some(heap)
}

fn pop() -> Option<&'static ProgramHeap> {
    // SAFETY: only `give_if_over` made the numbers in the pool.
    let id = POOL.pop(|id| &unsafe { by_id(id) }.link)?;
    // SAFETY: the number came out of the pool, to which only `give_if_over` adds, and it adds
    // numbers of heaps, which are never unmapped.
    Some(unsafe { by_id(id) })
}

/// Takes the memory for one more heap, and links it.
fn link() -> Option<&'static ProgramHeap> {
    // SAFETY: `region::take` gave memory of a heap's size and alignment, which no one else has and
    // which is zero: a FREE heap.
    let heap = unsafe { &*arena::at(region::take()?).cast::<ProgramHeap>() };
    let mut first = ALL.load(Relaxed);
    loop {
        heap.next.store(first, Relaxed);
        // Release: see `all`.
        match ALL.compare_exchange_weak(
            first,
            core::ptr::from_ref(heap).cast_mut(),
            Release,
            Relaxed,
        ) {
            Ok(_) => return Some(heap),
            Err(now) => first = now,
        }
    }
}

/// # Safety
/// The number came out of the pool.
unsafe fn by_id(id: u64) -> &'static ProgramHeap {
    // SAFETY: `give_if_over` made the number of a heap's address. No heap is unmapped (rule 1).
    unsafe { &*arena::at((id as usize) << HEAP_SHIFT).cast::<ProgramHeap>() }
}

/// Puts a heap into the pool if it was deleted and no routed block is live. The caller does not
/// have its lock.
#[inline]
pub fn give_if_over(heap: &'static ProgramHeap) {
    if heap.state.load(Relaxed) == ORPHAN {
        give_orphan_if_over(heap);
    }
}

/// [`give_if_over`] of a heap that was deleted.
#[cold]
#[inline(never)]
fn give_orphan_if_over(heap: &'static ProgramHeap) {
    let Ok(locked) = heap.lock() else { return };
    // Another thread may have been here meanwhile.
    if heap.state.load(Relaxed) != ORPHAN || heap.pages[Way::Routed as usize].blocks.get() != 0 {
        return;
    }
    locked.end_empty(Way::Routed);
    let samples = locked.take_samples(Way::Routed);
    heap.state.store(FREE, Relaxed);
    drop(locked);
    profile::all_freed(samples);
    POOL.push((core::ptr::from_ref(heap).addr() >> HEAP_SHIFT) as u64, &heap.link);
}

/// The handle of a heap that the caller has (rule 3).
pub fn handle(heap: &'static ProgramHeap) -> *mut u8 {
    let generation = heap.generation.load(Relaxed) as usize & GENERATIONS;
    core::ptr::from_ref(heap).cast_mut().cast::<u8>().wrapping_add(generation)
}

/// The heap of a handle, also of a lost one. None: it has ended.
///
/// # Safety
/// `handle` is from [`handle`].
pub unsafe fn by_handle(handle: *mut u8) -> Option<&'static ProgramHeap> {
    let generation = handle.addr() & GENERATIONS;
    // SAFETY: the caller promises a handle, and no heap is unmapped (rule 1).
    let heap = unsafe { &*handle.wrapping_sub(generation).cast::<ProgramHeap>() };
    let is_same = heap.generation.load(Relaxed) as usize & GENERATIONS == generation;
    (is_same && matches!(heap.state.load(Relaxed), LIVE | LOST)).then_some(heap)
}

/// Ends the pages of all heaps that have no live block, while `goes_on`. For the purge, which has a
/// lock that comes after those of the heaps (`program` rule 3): these are only tried. O(heaps, and
/// their pages).
pub fn give_up_unused(goes_on: impl Fn() -> bool) {
    used().take_while(|_| goes_on()).for_each(ProgramHeap::end_unused);
}

/// After a fork, in the child, whose only thread is `me`. `scopes` says how many scopes of a heap
/// that is in.
pub fn after_fork(me: u32, scopes: impl Fn(&ProgramHeap) -> u32) {
    all().for_each(|heap| heap.after_fork(me, scopes(heap)));
}

/// Memory for a scope, which is never unmapped either. None: there is none.
pub(super) fn room_for_scope() -> Option<*mut Scope> {
    // The word of a thread tells a scope from a heap by its place (`scope` rule 1).
    Some(arena::at(region::take()? + super::scope::OFFSET).cast())
}
