//! The list of all heaps. A heap that was made stays for ever.

use super::shared::SharedHeap;
use super::{Heap, region};
use crate::backend::arena;
use crate::backend::owner::{HEAP_SHIFT, HEAPS, PLACE16};
use crate::base::sync::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::proto::heap_state::Adopted;
use core::ptr::null_mut;

/// The newest heap. Each heap links to the one made before it.
#[unsafe(link_section = ".data.hakmem")]
pub static ALL: AtomicPtr<SharedHeap> = AtomicPtr::new(null_mut());

/// The number of heaps ever made.
pub fn heaps_made() -> u64 {
    HEAPS.load(Relaxed)
}

/// The first heaps claim slots of the fullest segment, so that few segments are in use. And while
/// there are no others, they share one cache of huge blocks, which finds the best fit.
pub const FEW: u64 = 8;

/// True if there are so many heaps that each has more for itself.
#[inline(always)]
pub fn are_many() -> bool {
    HEAPS.load(Relaxed) > FEW
}

/// Iterates over all heaps, newest first.
pub fn all_heaps() -> impl Iterator<Item = &'static SharedHeap> {
    // Acquire: a heap is initialised before it is linked.
    let mut next = ALL.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: the pointer is null or that of a heap, which `make` initialised before it linked
        // it. No heap is ever freed.
        let heap = unsafe { next.as_ref() }?;
        next = heap.next_heap().load(Relaxed);
        Some(heap)
    })
}

/// The number of a heap in the pool.
pub fn id_of(heap: &SharedHeap) -> u64 {
    (core::ptr::from_ref(heap).addr() >> HEAP_SHIFT) as u64
}

/// The heap with a number.
///
/// # Safety
/// The number is from [`id_of`].
pub unsafe fn heap_by_id(id: u64) -> &'static SharedHeap {
    // SAFETY: the caller promises a number from `id_of`, which made it of a heap's address. No heap
    // is ever freed.
    unsafe { &*arena::at((id as usize) << HEAP_SHIFT).cast::<SharedHeap>() }
}

/// Makes a heap that thread `me`, the calling one, holds. None: there is no memory for one.
#[cold]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn make(me: u32) -> Option<&'static SharedHeap> {
    let heap = arena::at(region::take()?).cast::<Heap>();
    // SAFETY: `region::take` gave memory of a heap's size and alignment, which no one else has, and
    // which is zero (`region` rule 2). All zero bytes are a heap with empty lists. Only the class
    // table is not zero; this thread writes it before any other thread can find the heap.
    let heap = unsafe {
        (&raw mut (*heap).owner.front.place16).write(PLACE16);
        &*heap
    };
    let made_before = HEAPS.fetch_add(1, Relaxed);
    heap.begin(made_before);
    let heap = heap.shared();
    // Before a thread that tidies idle heaps can find it. That thread would hold the heap, and this
    // one would have none.
    let adopted = heap.state().adopt(me);
    debug_assert!(adopted == Adopted::Yes);
    let mut first = ALL.load(Relaxed);
    loop {
        heap.next_heap().store(first, Relaxed);
        // Release: a thread that finds the heap sees it initialised, see `all_heaps`.
        let linked = ALL.compare_exchange_weak(
            first,
            core::ptr::from_ref(heap).cast_mut(),
            Release,
            Relaxed,
        );
        match linked {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    Some(heap)
}
