//! Many small blocks, freed in a given order (after SmartHeap's sh6bench).

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;

const BLOCKS: usize = 5000;

/// The order of the frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The newest block first.
    Lifo,
    /// The oldest block first.
    Fifo,
    /// A random permutation.
    Random,
}

/// Half of the blocks up to 32 bytes, a quarter up to 64, and so on to 400.
pub(super) fn size(rng: &mut Rng) -> usize {
    let limit = 32usize << rng.bits().trailing_zeros();
    rng.between(8, limit.clamp(32, 400))
}

/// The workload. Sizes and permutation are drawn before the clock starts.
pub fn run<A: Subject>(order: Order, ops: u64, meter: &mut Meter) {
    let mut rng = Rng::new(600);
    let sizes = Table::filled(BLOCKS, |_| size(&mut rng) as u32);
    let mut places = Table::filled(BLOCKS, |i| i as u32);
    match order {
        Order::Fifo => {}
        Order::Lifo => places.reverse(),
        Order::Random => rng.shuffle(&mut places),
    }
    let mut slots = Table::<Option<Block<A>>>::filled(BLOCKS, |_| None);
    meter.measure(|| {
        let mut left = ops as usize;
        while left > 0 {
            let n = left.min(BLOCKS);
            for (slot, &size) in slots.iter_mut().zip(sizes.iter()).take(n) {
                *slot = Some(Heap::new().block(size as usize));
            }
            for &i in places.iter() {
                slots[i as usize] = None;
            }
            left -= n;
        }
    });
}
