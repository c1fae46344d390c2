//! Blocks of one size, known to the compiler, as with `Box`.

use crate::heap::{Fixed, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::hint::black_box;

/// Blocks of a batch.
pub const BATCH: usize = 1000;

/// A batch of blocks that is allocated in order and freed in one of three orders in turn.
pub struct Batch<A: Subject, const SIZE: usize> {
    slots: Table<Option<Fixed<A, SIZE>>>,
    shuffled: Table<u32>,
    round: usize,
}

impl<A: Subject, const SIZE: usize> Default for Batch<A, SIZE> {
    fn default() -> Self {
        let mut shuffled = Table::filled(BATCH, |i| i as u32);
        Rng::new(SIZE as u64).shuffle(&mut shuffled);
        Self {
            slots: Table::filled(BATCH, |_| None),
            shuffled,
            round: 0,
        }
    }
}

impl<A: Subject, const SIZE: usize> Batch<A, SIZE> {
    /// Allocates `n` blocks, at most `BATCH`, and frees them.
    pub fn round(&mut self, n: usize) {
        let slots = &mut self.slots[..n];
        for slot in slots.iter_mut() {
            *slot = Some(Heap::new().fixed());
        }
        match self.round % 3 {
            0 => slots.iter_mut().for_each(|slot| *slot = None),
            1 => slots.iter_mut().rev().for_each(|slot| *slot = None),
            _ => {
                for &i in self.shuffled.iter() {
                    if let Some(slot) = slots.get_mut(i as usize) {
                        *slot = None;
                    }
                }
            }
        }
        self.round += 1;
    }
}

/// The workload: whole batches, and a last one for what remains.
pub fn run<A: Subject, const SIZE: usize>(ops: u64, meter: &mut Meter) {
    let mut batch = Batch::<A, SIZE>::default();
    meter.measure(|| {
        for _ in 0..ops / BATCH as u64 {
            batch.round(BATCH);
        }
        batch.round((ops % BATCH as u64) as usize);
    });
}

/// One block of 64 bytes, freed at once.
#[inline(always)]
pub fn hot_pair<A: Subject>() {
    black_box(Heap::<A>::new().fixed::<64>());
}

/// The workload of hot pairs.
pub fn tiny_hot<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| {
        for _ in 0..ops {
            hot_pair::<A>();
        }
    });
}
