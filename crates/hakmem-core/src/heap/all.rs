//! All heaps: how one is made, and how each is found. None is ever unmade.

use super::shared::SharedHeap;
use super::{Heap, region};
use crate::backend::arena;
use crate::backend::owner::HEAP_SHIFT;
use crate::base::size_class::CLASS16;
use crate::base::sync::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use core::ptr::null_mut;

/// Every heap ever made, newest first.
#[unsafe(link_section = ".data.hakmem")]
pub static ALL: AtomicPtr<SharedHeap> = AtomicPtr::new(null_mut());
#[unsafe(link_section = ".data.hakmem")]
pub static MADE: AtomicU64 = AtomicU64::new(0);

/// Heaps ever made.
pub fn heaps_made() -> u64 {
    MADE.load(Relaxed)
}

/// Every heap ever made.
pub fn all_heaps() -> impl Iterator<Item = &'static SharedHeap> {
    // Acquire: a heap was filled in before it was linked.
    let mut next = ALL.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: heaps are for ever.
        let heap = unsafe { next.as_ref() }?;
        next = heap.next_heap().load(Relaxed);
        Some(heap)
    })
}

/// The number by which the pool knows a heap.
pub fn id_of(heap: &SharedHeap) -> u64 {
    (core::ptr::from_ref(heap).addr() >> HEAP_SHIFT) as u64
}

/// The heap of a number.
///
/// # Safety
/// The number is from [`id_of`].
pub unsafe fn heap_by_id(id: u64) -> &'static SharedHeap {
    // SAFETY: the number was made from a heap's address, and heaps are for ever.
    unsafe { &*arena::at((id as usize) << HEAP_SHIFT).cast::<SharedHeap>() }
}

/// Makes a heap. None: there is no memory for one.
#[cold]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn make() -> Option<&'static SharedHeap> {
    let heap = arena::at(region::take()?).cast::<Heap>();
    // SAFETY: memory of a heap's size and alignment, nobody else's and zero (`region` rule 2); all zero is a heap with
    // empty lists but for the class table, which is written before anybody else knows of it.
    let heap = unsafe {
        (&raw mut (*heap).owner.front.class16).write(CLASS16);
        &*heap
    };
    heap.begin(MADE.fetch_add(1, Relaxed));
    let heap = heap.shared();
    let mut first = ALL.load(Relaxed);
    loop {
        heap.next_heap().store(first, Relaxed);
        // Release: see `all_heaps`.
        let linked = ALL.compare_exchange_weak(first, core::ptr::from_ref(heap).cast_mut(), Release, Relaxed);
        match linked {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    Some(heap)
}
