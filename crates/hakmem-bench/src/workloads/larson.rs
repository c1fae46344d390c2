//! A server whose threads come and go while its objects stay (Larson and Krishnan, "Memory allocation for long-running
//! server applications", 1998): the heirs of an object free it in another thread than it came from.

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::sync::mpsc::{self, Sender};
use std::thread;

const LANES: u64 = 2;
const OBJECTS: usize = 1000;
/// Operations after which a thread starts its successor and ends.
const TERM: u64 = 10_000;

/// One line of succession.
struct Lane<A: Subject> {
    slots: Table<Option<Block<A>>>,
    rng: Rng,
    left: u64,
    done: Sender<Table<Option<Block<A>>>>,
}

impl<A: Subject> Lane<A> {
    fn work(mut self) {
        let term = self.left.min(TERM);
        for _ in 0..term {
            let slot = &mut self.slots[self.rng.below(OBJECTS)];
            *slot = None;
            *slot = Some(Heap::new().block(self.rng.between(8, 1000)));
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

/// The workload.
pub fn run<A: Subject>(ops: u64, meter: &mut Meter) {
    let (done, ended) = mpsc::channel();
    let lanes: Vec<_> = (0..LANES)
        .map(|i| Lane::<A> {
            slots: Table::filled(OBJECTS, |_| None),
            rng: Rng::new(i + 200),
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
