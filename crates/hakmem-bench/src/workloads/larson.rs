//! A server whose threads come and go while its objects stay (Larson and Krishnan, "Memory
//! allocation for long-running server applications", 1998): the heirs of an object free it in
//! another thread than it came from.

use crate::heap::{Block, Heap, Subject, Unsized};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::sync::mpsc::{self, Sender};
use std::thread;

const LANES: u64 = 2;
const OBJECTS: usize = 1000;
/// Operations after which a thread starts its successor and ends.
const TERM: u64 = 10_000;

/// One line of succession; `T` is what a slot holds.
struct Lane<T> {
    slots: Table<Option<T>>,
    rng: Rng,
    sizes: (usize, usize),
    left: u64,
    done: Sender<Table<Option<T>>>,
}

impl<T: Send + 'static> Lane<T> {
    fn work<A: Subject>(mut self)
    where
        Block<A>: Into<T>,
    {
        let term = self.left.min(TERM);
        let (low, high) = self.sizes;
        for _ in 0..term {
            let slot = &mut self.slots[self.rng.below(OBJECTS)];
            *slot = None;
            *slot = Some(Heap::new().block(self.rng.between(low, high)).into());
        }
        self.left -= term;
        if self.left > 0 {
            thread::spawn(move || self.work());
        } else {
            self.done
                .send(self.slots)
                .expect("the main thread waits for every lane");
        }
    }
}

fn lanes<A: Subject, T: Send + 'static>(sizes: (usize, usize), ops: u64, meter: &mut Meter)
where
    Block<A>: Into<T>,
{
    let (done, ended) = mpsc::channel();
    let lanes: Vec<_> = (0..LANES)
        .map(|i| Lane::<T> {
            slots: Table::filled(OBJECTS, |_| None),
            rng: Rng::new(i + 200),
            sizes,
            left: ops / LANES + if i == 0 { ops % LANES } else { 0 },
            done: done.clone(),
        })
        .collect();
    drop(done);
    meter.measure(|| {
        for lane in lanes {
            thread::spawn(move || lane.work());
        }
        // Tables arrive as lanes end; their blocks are freed here, by a third thread.
        ended.iter().for_each(drop);
    });
}

/// The workload, with objects of the sizes given.
pub fn run<A: Subject>(sizes: (usize, usize), ops: u64, meter: &mut Meter) {
    lanes::<A, Block<A>>(sizes, ops, meter);
}

/// The same where slots hold addresses alone, and whoever frees an object must read its size from
/// it first. The allocator is told the size all the same: `GlobalAlloc` has no other way.
pub fn headed<A: Subject>(sizes: (usize, usize), ops: u64, meter: &mut Meter) {
    lanes::<A, Unsized<A>>(sizes, ops, meter);
}
