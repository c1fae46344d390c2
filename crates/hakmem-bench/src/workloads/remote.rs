//! Blocks allocated by one thread and freed by another, in batches through a bounded queue.

use crate::heap::{Block, Heap, Subject};
use crate::meter::Meter;
use crate::rng::Rng;
use crate::storage::Table;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

/// Batches in circulation per producer: how far consumers may fall behind.
const DEPTH: usize = 8;

type Batch<A> = Table<Block<A>>;

/// Batches go round: empty ones to the producers, full ones to the consumers.
struct Circle<A: Subject> {
    state: Mutex<State<A>>,
    emptied: Condvar,
    filled: Condvar,
}

struct State<A: Subject> {
    empty: Vec<Batch<A>>,
    full: VecDeque<Batch<A>>,
    /// Blocks of a full batch.
    batch: u64,
    /// Blocks that no producer has taken on yet.
    unclaimed: u64,
    producing: usize,
}

impl<A: Subject> Circle<A> {
    fn new(producers: usize, batch: u64, blocks: u64) -> Self {
        let batches = producers * DEPTH;
        let state = State {
            empty: (0..batches).map(|_| Table::new(batch as usize)).collect(),
            full: VecDeque::with_capacity(batches),
            batch,
            unclaimed: blocks,
            producing: producers,
        };
        Self {
            state: Mutex::new(state),
            emptied: Condvar::new(),
            filled: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().expect("no holder panics")
    }

    /// An empty batch, and how many blocks to put into it; `None` once all blocks are claimed.
    fn claim(&self) -> Option<(Batch<A>, u64)> {
        let mut state = self.lock();
        loop {
            if state.unclaimed == 0 {
                state.producing -= 1;
                self.filled.notify_all();
                // Another producer may wait for a batch that it no longer needs.
                self.emptied.notify_all();
                return None;
            }
            if let Some(batch) = state.empty.pop() {
                let n = state.unclaimed.min(state.batch);
                state.unclaimed -= n;
                return Some((batch, n));
            }
            state = self.emptied.wait(state).expect("no holder panics");
        }
    }

    fn submit(&self, batch: Batch<A>) {
        self.lock().full.push_back(batch);
        self.filled.notify_one();
    }

    /// The oldest full batch; `None` once there will be no more.
    fn take(&self) -> Option<Batch<A>> {
        let mut state = self.lock();
        loop {
            if let Some(batch) = state.full.pop_front() {
                return Some(batch);
            }
            if state.producing == 0 {
                return None;
            }
            state = self.filled.wait(state).expect("no holder panics");
        }
    }

    fn give_back(&self, batch: Batch<A>) {
        self.lock().empty.push(batch);
        self.emptied.notify_one();
    }
}

/// The workload, with `side` producers and as many consumers.
pub fn run<A: Subject>(side: usize, ops: u64, meter: &mut Meter) {
    through_circle::<A>(side, 256, |rng| rng.between(16, 512), ops, meter);
}

/// The workload of xmalloc-test: batches of 4,096 blocks, one producer, one consumer; powers of two
/// from 8 B to 2 KiB and what lies half-way between them.
pub fn xmalloc<A: Subject>(ops: u64, meter: &mut Meter) {
    let size = |rng: &mut Rng| {
        let power = 8 << rng.below(9);
        if rng.below(2) == 0 {
            power
        } else {
            power / 4 * 3
        }
    };
    through_circle::<A>(1, 4096, size, ops, meter);
}

fn through_circle<A: Subject>(
    side: usize,
    batch: u64,
    size: impl Fn(&mut Rng) -> usize + Copy + Send,
    ops: u64,
    meter: &mut Meter,
) {
    let circle = Circle::<A>::new(side, batch, ops);
    meter.measure(|| {
        thread::scope(|scope| {
            for lane in 0..side {
                let circle = &circle;
                scope.spawn(move || {
                    let mut rng = Rng::new(lane as u64 + 300);
                    while let Some((mut batch, n)) = circle.claim() {
                        for _ in 0..n {
                            batch.push(Heap::new().block(size(&mut rng)));
                        }
                        circle.submit(batch);
                    }
                });
                scope.spawn(move || {
                    while let Some(mut batch) = circle.take() {
                        batch.clear();
                        circle.give_back(batch);
                    }
                });
            }
        });
    });
}
