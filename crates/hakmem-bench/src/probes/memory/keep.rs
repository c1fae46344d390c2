//! Nearly all blocks are freed: whole runs of neighbours but one run in twenty, or blocks at
//! random.

use super::pages;
use crate::heap::{Block, Heap};
use crate::probes::stage::Stage;
use crate::rng::Rng;
use crate::storage::Table;
use std::alloc::System;
use std::mem;

/// One in this many stays.
const KEPT: usize = 20;
/// Blocks in a run.
const RUN: usize = 1000;

/// Every twentieth run of 1,000 blocks stays.
pub fn runs(bytes: usize) {
    run(bytes, |i, _| (i / RUN).is_multiple_of(KEPT));
}

/// One block in twenty stays.
pub fn random(bytes: usize) {
    run(bytes, |_, rng| rng.below(KEPT) == 0);
}

/// The table is unmapped before the process rests.
fn run(bytes: usize, stays: fn(usize, &mut Rng) -> bool) {
    let mut rng = Rng::new(800);
    // As if all blocks were of 64 bytes: the mean is 136.
    let mut blocks = Table::<Option<Block<System>>>::new(bytes / 64 + 64);
    let mut allocated = 0;
    while allocated < bytes {
        let mut block = Heap::new().block(rng.between(16, 256));
        block.write_all(0, 1);
        allocated += block.size();
        blocks.push(Some(block));
    }
    for (i, slot) in blocks.iter_mut().enumerate() {
        if !stays(i, &mut rng) {
            *slot = None;
        }
    }
    let kept = || blocks.iter().flatten();
    let stage = Stage {
        live: kept().map(|block| block.size() as u64).sum(),
        pages: pages::bytes(|| kept().map(Block::extent)),
        tables: 0,
    };
    blocks.iter_mut().for_each(|slot| mem::forget(slot.take()));
    drop(blocks);
    stage.rest();
}
