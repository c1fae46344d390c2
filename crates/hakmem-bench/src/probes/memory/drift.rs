//! A program whose sizes change, as those of a server do from one kind of request to the next: the
//! memory of the old sizes has to serve the new ones.

use super::pages;
use crate::heap::{Block, Heap};
use crate::probes::stage::Stage;
use crate::rng::Rng;
use crate::storage::Table;
use std::alloc::System;

/// The least and the largest size of each phase.
const PHASES: [(usize, usize); 6] = [
    (16, 64),
    (700, 1400),
    (48, 300),
    (3000, 9000),
    (128, 1024),
    (20_000, 60_000),
];
/// A phase allocates so many times the bytes that are live.
const TIMES: usize = 3;

/// Blocks that are replaced at random, so many bytes of them at most.
struct Set {
    blocks: Table<Block<System>>,
    live: usize,
    most: usize,
    rng: Rng,
}

impl Set {
    fn new(most: usize) -> Self {
        Self {
            // As if all blocks were of 32 bytes: the mean of the smallest sizes is 40.
            blocks: Table::new(most / 32),
            live: 0,
            most,
            rng: Rng::new(900),
        }
    }

    /// Frees random blocks until there is room, and allocates one.
    fn replace(&mut self, size: usize) {
        while self.live + size > self.most && !self.blocks.is_empty() {
            let i = self.rng.below(self.blocks.len());
            let last = self.blocks.len() - 1;
            self.blocks.swap(i, last);
            let freed = self.blocks.pop();
            self.live -= freed.map_or(0, |block| block.size());
        }
        let mut block = Heap::new().block(size);
        block.write_all(0, 1);
        self.live += size;
        self.blocks.push(block);
    }

    fn phase(&mut self, (least, largest): (usize, usize)) {
        let mut allocated = 0;
        while allocated < TIMES * self.most {
            let size = self.rng.between(least, largest);
            self.replace(size);
            allocated += size;
        }
    }
}

/// The probe, with so many bytes live.
pub fn run(live: usize) {
    let mut set = Set::new(live);
    for phase in PHASES {
        set.phase(phase);
        let stage = Stage {
            live: set.live as u64,
            pages: pages::bytes(|| set.blocks.iter().map(Block::extent)),
            tables: set.blocks.bytes(),
        };
        stage.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_leaves_as_much_live_as_before() {
        let mut set = Set::new(1 << 20);
        for phase in PHASES {
            set.phase(phase);
            let sum: usize = set.blocks.iter().map(Block::size).sum();
            assert_eq!(set.live, sum);
            assert!(
                sum <= set.most && sum + phase.1 > set.most,
                "{sum} {phase:?}"
            );
        }
    }
}
