//! Blocks of a program heap in guarded places (`guard`).
//!
//! Each block with a class has the same chance of a place, whichever way it comes. An own block
//! comes singly, so its chance is taken then. A scope takes the chances of all blocks of its next
//! list: the list ends before the first one that is due, and that block comes after it, singly.
//!
//! Rules
//! 1. The heap counts such a block as it counts any other one of its class. So the limit holds for
//!    it, and a heap with a routed one ends only with that one's free.
//! 2. The place keeps the heap and the way as its owner, from before the program has the block.
//!    Allocation and reset set and clear places under the heap's lock.
//! 3. A signal handler may free such a block while its own thread has the lock (`program` rule 4).
//!    The place is free at once. `late` keeps the count for the next one to take the lock: there
//!    are fewer places than each part of the word can count.

use super::scope::Scope;
use super::{LOST, Locked, ProgramHeap, Way, registry};
use crate::backend::arena;
use crate::backend::page::Block;
use crate::base::size_class::SIZES;
use crate::base::sync::Ordering::Relaxed;
use crate::guard::{self, Owner};
use core::ptr::NonNull;

/// Bits of a way in `late`: bytes, and above them blocks.
const HALF: u32 = 32;
const BYTES: u32 = 24;

const _: () =
    assert!(guard::PLACES < 1 << (HALF - BYTES) && guard::PLACES * guard::ROOM < 1 << BYTES);

impl ProgramHeap {
    /// What a place keeps of a block of this heap.
    fn owner(&'static self, way: Way, bytes: u32) -> Owner {
        Owner { word: core::ptr::from_ref(self).addr() | way as usize, bytes }
    }

    /// Gives a block for `request` bytes a guarded place, if that is due. All bytes are zero. None:
    /// the block is to come from a page.
    #[cold]
    #[inline(never)]
    pub fn alloc_guarded(
        &'static self,
        way: Way,
        class: usize,
        request: usize,
    ) -> Option<NonNull<u8>> {
        guard::next_due(1)?;
        self.place(way, class, request)
    }

    fn place(&'static self, way: Way, class: usize, request: usize) -> Option<NonNull<u8>> {
        let locked = self.lock().ok()?;
        let size = u64::from(SIZES[class]);
        // Beyond the limit the page refuses the block, and counts that.
        if self.allowed(1, size) == 0 {
            return None;
        }
        // Before the place: the limit may change meanwhile.
        locked.charge(way, 1, size)?;
        let block = guard::alloc(request, SIZES[class] as usize, self.owner(way, SIZES[class]));
        match block {
            Some(_) => locked.note_peak(),
            None => locked.uncharge(way, 1, size),
        }
        block
    }

    /// True if the owner of a place is this heap.
    pub fn is_owner(&self, owner: Owner) -> bool {
        owner.word & !1 == core::ptr::from_ref(self).addr()
    }
}

impl Scope {
    /// [`ProgramHeap::alloc_guarded`] for a scope whose list may be empty.
    #[cold]
    #[inline(never)]
    pub fn alloc_guarded(&self, class: usize, request: usize) -> Option<NonNull<Block>> {
        if !self.front.lists[class].free.get().is_null() {
            return None;
        }
        let bit = 1 << class;
        if self.guarded.get() & bit == 0 {
            let before = guard::next_due(Self::at_once(class))?;
            if before > 0 {
                self.cut.set(before);
                self.guarded.set(self.guarded.get() | bit);
                return None;
            }
        }
        self.guarded.set(self.guarded.get() & !bit);
        self.heap().place(Way::Routed, class, request).map(NonNull::cast)
    }

    /// How many blocks the next list of `class` may have.
    pub(super) fn wanted(&self, class: usize) -> u64 {
        match self.cut.replace(0) {
            0 => Self::at_once(class),
            before => before.min(Self::at_once(class)),
        }
    }
}

impl Locked {
    /// Counts what signal handlers freed (rule 3).
    #[cold]
    pub(super) fn count_late(&self) {
        let late = self.heap.late.swap(0, Relaxed);
        for (way, part) in [(Way::Own, late as u32), (Way::Routed, (late >> HALF) as u32)] {
            let (blocks, bytes) = (u64::from(part >> BYTES), u64::from(part & ((1 << BYTES) - 1)));
            self.count_freed(way, blocks, bytes);
        }
    }

    fn count_freed(&self, way: Way, blocks: u64, bytes: u64) {
        self.heap.figures.frees.add(blocks);
        self.discharge(way, blocks, 0);
        self.discharge_bytes(way, bytes);
    }

    /// Frees the places of a way, whose blocks nobody uses any more. The caller counts them.
    pub(super) fn end_guarded(&self, way: Way) {
        let word = self.heap.owner(way, 0).word;
        while let Some(p) = guard::first_of(word) {
            guard::free(p);
        }
    }
}

/// Counts the free of a block in a guarded place, which `owner` had.
#[cold]
pub fn freed(owner: Owner) {
    // SAFETY: `place` made the word, of a heap. The memory of heaps is never unmapped (`program`
    // rule 5).
    let heap: &'static ProgramHeap = unsafe { &*arena::at(owner.word & !1).cast() };
    let (way, half) = if owner.word & 1 == 0 { (Way::Own, 0) } else { (Way::Routed, HALF) };
    match heap.lock() {
        Ok(locked) => locked.count_freed(way, 1, owner.bytes.into()),
        Err(_) if heap.state.load(Relaxed) == LOST => return,
        Err(_) => {
            let part = 1 << BYTES | u64::from(owner.bytes);
            heap.late.fetch_add(part << half, Relaxed);
            return;
        }
    }
    registry::give_if_over(heap);
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use crate::base::size_class::of16;
    use crate::program::Refusal;
    use crate::testing::in_child;
    use crate::{harden, policy};

    /// Rule 3: what is freed under the lock is counted by the next one to take it, and the heap
    /// ends.
    #[test]
    fn who_interrupts_the_heap_frees_a_place() {
        if harden::ON {
            return;
        }
        in_child(|| {
            policy::GUARD_SAMPLE.set(1);
            let heap = registry::make("interrupted", None).expect("memory");
            let take = |way| heap.alloc_guarded(way, of16(100), 100).expect("a place").as_ptr();
            let blocks = [Way::Own, Way::Own, Way::Routed, Way::Routed].map(take);
            let counts = || {
                (heap.figures.live.get(), heap.figures.allocations.get(), heap.figures.frees.get())
            };
            assert_eq!(counts(), (4 * 112, 4, 0));
            let free = |p| freed(guard::free(p).expect("a block of the heap"));
            let interrupted = heap.lock().expect("free");
            assert_eq!(heap.alloc_guarded(Way::Own, of16(100), 100), None);
            blocks[..3].iter().for_each(|&p| free(p));
            assert_eq!(counts(), (4 * 112, 4, 0));
            drop(interrupted);
            assert!(heap.lock().is_ok());
            assert_eq!(counts(), (112, 4, 3));
            // SAFETY: nobody uses the heap or an own block of it any more.
            assert!(unsafe { heap.delete() } && heap.is_used());
            free(blocks[3]);
            assert!(!heap.is_used());
        });
    }

    /// A block beyond the limit is refused as ever, and counted once.
    #[test]
    fn no_place_goes_beyond_the_limit() {
        if harden::ON {
            return;
        }
        in_child(|| {
            policy::GUARD_SAMPLE.set(1);
            let heap = registry::make("limited", Some(200)).expect("memory");
            let take = || crate::api::front::alloc_of(heap, Way::Own, 100, 16, Some(of16(100)));
            let first = take().expect("within the limit").0;
            assert!(guard::has(first.as_ptr()));
            assert_eq!(take(), Err(Refusal::Limit));
            assert_eq!((heap.figures.live.get(), heap.figures.refused.get()), (112, 1));
            // SAFETY: nobody uses an own block any more.
            unsafe { heap.reset() }.expect("not in use");
            assert!(take().is_ok());
            // Without a free place nothing is counted.
            heap.set_limit(None);
            let place = || heap.alloc_guarded(Way::Own, of16(100), 100);
            assert_eq!((0..=guard::PLACES).filter_map(|_| place()).count(), guard::PLACES - 1);
            assert_eq!(heap.figures.live.get(), 112 * guard::PLACES as u64);
            assert_eq!(heap.figures.refused.get(), 1);
        });
    }
}
