//! Two threads that replace blocks of 8–16,000 B and let each other free some (after rpmalloc's
//! benchmark).

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;

const THREADS: usize = 2;
/// Blocks a thread holds.
const SET: usize = 1000;
/// Operations between two exchanges, and blocks that change hands at one.
const ROUND: usize = 100;

/// Where a thread leaves blocks for the other one to free, as tokens.
struct Hatch<A: Subject> {
    slots: Table<AtomicPtr<u8>>,
    blocks: PhantomData<fn() -> Block<A>>,
}

impl<A: Subject> Hatch<A> {
    fn new() -> Self {
        Self {
            slots: Table::filled(ROUND, |_| AtomicPtr::new(ptr::null_mut())),
            blocks: PhantomData,
        }
    }

    /// Leaves a block in slot `i`; what nobody has fetched from there comes back.
    fn leave(&self, i: usize, block: Block<A>) -> Option<Block<A>> {
        let old = self.slots[i].swap(block.into_token(), Ordering::AcqRel);
        // SAFETY: only tokens of blocks of `A` are in the slots, and the swap gave this one to us
        // alone.
        unsafe { Block::from_token(old) }
    }

    /// Fetches what is in slot `i`.
    fn fetch(&self, i: usize) -> Option<Block<A>> {
        if self.slots[i].load(Ordering::Relaxed).is_null() {
            return None;
        }
        let old = self.slots[i].swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: the token came from a block that `leave` put there, and the swap took it for this
        // call alone.
        unsafe { Block::from_token(old) }
    }
}

/// The smaller of two draws: linearly fewer the larger they are.
fn size(rng: &mut Rng) -> usize {
    rng.between(8, 16_000).min(rng.between(8, 16_000))
}

fn work<A: Subject>(lane: usize, ops: usize, set: &mut Table<Block<A>>, hatches: &[Hatch<A>]) {
    let mut rng = Rng::new(1500 + lane as u64);
    let (mine, theirs) = (&hatches[lane], &hatches[(lane + 1) % THREADS]);
    let mut left = ops;
    while left > 0 {
        let n = left.min(ROUND);
        for i in 0..n {
            let block = Heap::new().block(size(&mut rng));
            if set.len() < SET {
                set.push(block);
                continue;
            }
            let at = rng.below(SET);
            let old = std::mem::replace(&mut set[at], block);
            // Every second round's frees are the other thread's business.
            if (left / ROUND).is_multiple_of(2) {
                drop(theirs.leave(i, old));
            }
        }
        (0..ROUND).for_each(|i| drop(mine.fetch(i)));
        left -= n;
    }
    set.clear();
}

/// The workload.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let hatches = [(); THREADS].map(|()| Hatch::<A>::new());
    let mut sets = [(); THREADS].map(|()| Table::new(SET));
    let ops = ops as usize;
    meter.measure(|| {
        thread::scope(|scope| {
            for (lane, set) in sets.iter_mut().enumerate() {
                let hatches = &hatches;
                let share = ops / THREADS + usize::from(lane < ops % THREADS);
                scope.spawn(move || work(lane, share, set, hatches));
            }
        });
        for hatch in &hatches {
            (0..ROUND).for_each(|i| drop(hatch.fetch(i)));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn a_block_in_the_hatch_is_fetched_once() {
        let hatch = Hatch::<System>::new();
        assert!(hatch.leave(3, Heap::new().block(100)).is_none());
        let old = hatch.leave(3, Heap::new().block(200));
        assert_eq!(old.map(|b| b.size()), Some(100));
        assert_eq!(hatch.fetch(3).map(|b| b.size()), Some(200));
        assert!(hatch.fetch(3).is_none());
    }
}
