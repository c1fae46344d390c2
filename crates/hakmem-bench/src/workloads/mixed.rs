//! Random sizes, random lifetimes, a working set of constant size.

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;

/// Slots of which random ones are replaced.
pub struct WorkingSet<A: Subject> {
    slots: Table<Option<Block<A>>>,
    rng: Rng,
}

impl<A: Subject> WorkingSet<A> {
    /// Room for `blocks` blocks, all empty.
    pub fn new(blocks: usize) -> Self {
        Self {
            slots: Table::filled(blocks, |_| None),
            rng: Rng::new(blocks as u64),
        }
    }

    /// Frees what is in a random slot, then puts a block of 16–1040 bytes there.
    #[inline]
    pub fn replace(&mut self) {
        let random = self.rng.bits();
        let size = 16 + (((random & 0xffff) as usize * 1025) >> 16);
        let i = ((random >> 32) as usize * self.slots.len()) >> 32;
        let slot = &mut self.slots[i];
        *slot = None;
        *slot = Some(Heap::new().block(size));
    }

    /// Fills every slot.
    pub fn fill(&mut self) {
        for i in 0..self.slots.len() {
            let size = self.rng.between(16, 1040);
            self.slots[i] = Some(Heap::new().block(size));
        }
    }

    /// Frees every block.
    pub fn drain(&mut self) {
        self.slots.iter_mut().for_each(|slot| *slot = None);
    }
}

/// The workload: the set starts empty, and is drained at the end.
pub fn run<A: Subject>(blocks: usize, ops: u64, meter: &mut Meter) {
    let mut set = WorkingSet::<A>::new(blocks);
    meter.measure(|| {
        for _ in 0..ops {
            set.replace();
        }
        set.drain();
    });
}
