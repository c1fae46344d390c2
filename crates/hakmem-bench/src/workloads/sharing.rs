//! False sharing: two threads that write blocks of their own are slow if the allocator put these on
//! one cache line. *Active* sharing is caused by the allocator handing neighbours to different
//! threads, *passive* sharing by a thread reusing a block that it got from another one and freed
//! (Hoard's cache-thrash and cache-scratch).

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use std::sync::Barrier;
use std::thread;

const SIZE: usize = 8;
const WRITES: usize = 100;
/// Both threads start together, or there would be nothing to share.
const THREADS: usize = 2;

fn work<A: Subject>(ops: u64) {
    for _ in 0..ops {
        let mut block = Heap::<A>::new().block(SIZE);
        for i in 0..WRITES {
            block.write(0, i as u8);
        }
    }
}

fn both<A: Subject>(mut first: [Option<Block<A>>; THREADS], ops: u64) {
    let start = &Barrier::new(THREADS);
    thread::scope(|scope| {
        for (i, slot) in first.iter_mut().enumerate() {
            let ops = ops / 2 + if i == 0 { ops % 2 } else { 0 };
            let inherited = slot.take();
            scope.spawn(move || {
                start.wait();
                drop(inherited);
                work::<A>(ops);
            });
        }
    });
}

/// The workload of active sharing.
pub fn active<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| both::<A>([None, None], ops));
}

/// The workload of passive sharing: the threads begin by freeing neighbours that the main thread
/// allocated.
pub fn passive<A: Subject>(ops: u64, meter: &mut Meter) {
    meter.measure(|| both::<A>([(); THREADS].map(|()| Some(Heap::new().block(SIZE))), ops));
}
