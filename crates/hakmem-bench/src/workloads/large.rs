//! Blocks from 8 KiB to 64 MiB.

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::hint::black_box;
use std::thread;

/// The step of writes that reach every page.
pub const PAGE: usize = 4096;

/// One block, its ends written, freed at once.
#[inline(always)]
pub fn pair<A: Subject>(size: usize) {
    black_box(Heap::<A>::new().block(size));
}

/// The workload of such pairs. The size is hidden from the compiler, as that of a buffer mostly is.
pub fn pairs<A: Subject>(size: usize, ops: u64, meter: &mut Meter) {
    meter.measure(|| {
        for _ in 0..ops {
            pair::<A>(black_box(size));
        }
    });
}

/// One block of 2 MiB, every page written, freed.
#[inline]
pub fn vm_pair<A: Subject>() {
    let mut block = Heap::<A>::new().block(black_box(2 << 20));
    block.write_every(0, PAGE);
}

/// The workload of such blocks.
pub fn vm<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| {
        for _ in 0..ops {
            vm_pair::<A>();
        }
    });
}

/// Large zeroed blocks of which hardly anything is used.
pub fn zeroed<A: Subject>(ops: u64, meter: &mut Meter) {
    const SIZE: usize = 64 << 20;
    let mut rng = Rng::new(SIZE as u64);
    meter.measure(|| {
        for _ in 0..ops {
            let mut block = Heap::<A>::new().zeroed(black_box(SIZE));
            let at = rng.below(SIZE);
            assert_eq!(block.read(at), 0, "a zeroed block was not zero at {at}");
            block.write(at, 1);
        }
    });
}

/// Twenty buffers of 5–25 MiB, random ones of which are replaced by fresh ones, every page written.
pub fn buffers<A: Subject>(ops: u64, meter: &mut Meter) {
    const LIVE: usize = 20;
    let mut slots = Table::<Option<Block<A>>>::filled(LIVE, |_| None);
    let mut rng = Rng::new(900);
    meter.measure(|| {
        for _ in 0..ops {
            let slot = &mut slots[rng.below(LIVE)];
            *slot = None;
            let mut buffer = Heap::new().block(rng.between(5 << 20, 25 << 20));
            buffer.write_every(0, PAGE);
            *slot = Some(buffer);
        }
        slots.clear();
    });
}

/// Two threads with a working set of medium blocks each.
pub fn mid_mt<A: Subject>(ops: u64, meter: &mut Meter) {
    const BLOCKS: usize = 64;
    let tables = [0, 1].map(|lane| (lane, Table::<Option<Block<A>>>::filled(BLOCKS, |_| None)));
    meter.measure(|| {
        thread::scope(|scope| {
            for (lane, mut slots) in tables {
                scope.spawn(move || {
                    let mut rng = Rng::new(lane + 100);
                    for _ in 0..ops / 2 + (ops % 2) * lane {
                        let slot = &mut slots[rng.below(BLOCKS)];
                        *slot = None;
                        *slot = Some(Heap::new().block(rng.between(8 << 10, 64 << 10)));
                    }
                });
            }
        });
    });
}
