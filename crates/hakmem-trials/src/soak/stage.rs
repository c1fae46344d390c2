//! What all threads of the soak share. Its books lie outside the heap under test.

use super::heap;
use super::pattern::Block;
use hakmem_bench::rng::Rng;
use hakmem_bench::storage::Table;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};

/// What the threads are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Call the allocator all the time.
    Work,
    /// Make no call, and keep what is live.
    Rest,
    /// Free everything and end.
    End,
}

/// How many roles there are.
pub const ROLES: usize = 7;

/// Shared by all threads.
pub struct Stage {
    phase: Mutex<Phase>,
    changed: Condvar,
    /// A copy that is read before each step.
    resting: AtomicBool,
    /// Blocks that any thread may take and free.
    exchange: Mutex<Table<Block>>,
    room: usize,
    /// Where random numbers begin.
    pub seed: u64,
    /// Steps done, by role.
    pub steps: [AtomicU64; ROLES],
}

impl Stage {
    /// At work, with nothing to exchange yet.
    pub fn new(seed: u64, room: usize) -> Self {
        Self {
            phase: Mutex::new(Phase::Work),
            changed: Condvar::new(),
            resting: AtomicBool::new(false),
            exchange: Mutex::new(Table::new(room)),
            room,
            seed,
            steps: [const { AtomicU64::new(0) }; ROLES],
        }
    }

    /// The random numbers of one thread of a role.
    pub fn numbers(&self, role: usize, thread: usize) -> Rng {
        Rng::new(self.seed ^ ((role as u64) << 32 | (thread as u64) << 8))
    }

    /// Begins another phase.
    pub fn set(&self, phase: Phase) {
        *locked(&self.phase) = phase;
        self.resting.store(phase != Phase::Work, Relaxed);
        self.changed.notify_all();
    }

    /// Counts a step of a role, waits while all rest, and says whether to go on.
    pub fn goes_on(&self, role: usize) -> bool {
        self.steps[role].fetch_add(1, Relaxed);
        !self.resting.load(Relaxed) || self.rested()
    }

    #[cold]
    fn rested(&self) -> bool {
        let mut phase = locked(&self.phase);
        while *phase == Phase::Rest {
            phase = self.changed.wait(phase).unwrap_or_else(|e| e.into_inner());
        }
        *phase == Phase::Work
    }

    /// Leaves a block to whoever comes; gives one back that is to be freed, when there are many.
    pub fn leave(&self, block: Block, rng: &mut Rng) -> Option<Block> {
        let mut exchange = locked(&self.exchange);
        if exchange.len() < self.room {
            exchange.push(block);
            return None;
        }
        let at = rng.below(exchange.len());
        Some(std::mem::replace(&mut exchange[at], block))
    }

    /// Takes a block that somebody left.
    pub fn take(&self) -> Option<Block> {
        locked(&self.exchange).pop()
    }

    /// Held while a child is made: the child finds the exchange unlocked and whole.
    pub fn hold(&self) -> MutexGuard<'_, Table<Block>> {
        locked(&self.exchange)
    }

    /// Frees all that was left.
    pub fn clear(&self) {
        while let Some(block) = self.take() {
            heap::free(block);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked has ended the process already: panics abort.
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
