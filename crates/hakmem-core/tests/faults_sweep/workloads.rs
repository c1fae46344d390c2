//! What is done while calls are refused: little of each, so that the sweep is short, and enough to
//! reach every call.

use crate::heap::Heap;
use crate::oracle::Block;
use hakmem_core::c::{fit_address_limit, trim};
use std::sync::mpsc;
use std::thread;

/// Runs in a fresh process, and returns the blocks that it leaves.
pub struct Workload {
    pub name: &'static str,
    pub run: fn(&Heap) -> Vec<Block>,
}

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "small",
        run: small,
    },
    Workload {
        name: "large",
        run: large,
    },
    Workload {
        name: "huge",
        run: huge,
    },
    Workload {
        name: "growth",
        run: growth,
    },
    Workload {
        name: "purge",
        run: purge,
    },
    Workload {
        name: "aligned",
        run: aligned,
    },
    Workload {
        name: "limited",
        run: limited,
    },
    Workload {
        name: "threads",
        run: threads,
    },
];

/// Blocks of pages, enough for a few segments; what is left of them lies sparsely.
fn small(heap: &Heap) -> Vec<Block> {
    let caller = heap.caller(true);
    let mut left = Vec::new();
    for size in [24, 300, 1024, 6000, 50_000] {
        let count = ((2 << 20) / size).min(3000);
        let blocks = (0..count).filter_map(|_| caller.alloc(size)).collect();
        left.extend(caller.thin_out(blocks, 701));
    }
    left.extend((0..1000).filter_map(|_| caller.zeroed(300)));
    left
}

/// Whole slots, replaced and resized in turn.
fn large(heap: &Heap) -> Vec<Block> {
    let caller = heap.caller(true);
    let mut blocks: Vec<Block> = Vec::new();
    for i in 0..60 {
        let size = 66_000 + i * 37_000 % 900_000;
        blocks.extend(if i % 3 == 0 {
            caller.zeroed(size)
        } else {
            caller.alloc(size)
        });
        if i % 2 == 1 && !blocks.is_empty() {
            let block = blocks.swap_remove(i * 7 % blocks.len());
            blocks.push(caller.resize(block, size / 2 + 60_000 * (i % 5) + 1));
        }
        if i % 4 == 3 && !blocks.is_empty() {
            caller.free(blocks.swap_remove(i * 5 % blocks.len()));
        }
    }
    blocks
}

/// Whole segments: cached, cut up, joined, cleared, shrunk.
fn huge(heap: &Heap) -> Vec<Block> {
    const MIB: usize = 1 << 20;
    let caller = heap.caller(true);
    let mut blocks: Vec<Block> = Vec::new();
    for i in 0..20 {
        let size = MIB + MIB * (i * 5 % 9) + 1;
        blocks.extend(if i % 4 == 0 {
            caller.zeroed(size)
        } else {
            caller.alloc(size)
        });
        if i % 3 == 2 && !blocks.is_empty() {
            let block = blocks.remove(0);
            let less = block.size() / 2 + 1;
            blocks.push(caller.resize(block, less));
        }
        if i % 2 == 1 && !blocks.is_empty() {
            caller.free(blocks.remove(i % blocks.len()));
        }
        if i == 12 {
            trim();
        }
    }
    blocks
}

/// Blocks that grow beside each other, so that their pages must move.
fn growth(heap: &Heap) -> Vec<Block> {
    let caller = heap.caller(true);
    let mut blocks: Vec<Block> = (0..3).filter_map(|_| caller.alloc(1 << 19)).collect();
    for step in 0..7 {
        let size = (1 << 20) * (step + 1) * (step + 2) / 3;
        blocks = blocks.into_iter().map(|b| caller.resize(b, size)).collect();
    }
    // One that did not ask for huge pages: how much of it is there decides whether it does.
    if let Some(block) = caller.alloc(5 << 18) {
        blocks.push(caller.resize(block, 5 << 20));
    }
    // One that takes what these left, and is cleared.
    blocks.extend(caller.zeroed(9 << 20));
    blocks
}

/// Memory that is given back, by holes and whole, and taken again.
fn purge(heap: &Heap) -> Vec<Block> {
    let caller = heap.caller(true);
    let mut left = Vec::new();
    for round in 0..3 {
        for size in [120, 4096, 20_000, 200_000] {
            let count = ((1 << 20) / size).min(1500);
            let blocks = (0..count).filter_map(|_| caller.alloc(size)).collect();
            left.extend(caller.thin_out(blocks, 301));
        }
        trim();
        for block in &left {
            caller.check(block);
        }
        if round == 1 {
            left = caller.thin_out(left, 2);
        }
    }
    left
}

fn aligned(heap: &Heap) -> Vec<Block> {
    let caller = heap.caller(true);
    let mut blocks: Vec<Block> = Vec::new();
    for shift in 5..24 {
        for size in [1, 3000, 70_000] {
            blocks.extend(caller.aligned(size, 1 << shift));
        }
        blocks = caller.thin_out(blocks, 3);
    }
    blocks.extend(caller.aligned(5 << 20, 8 << 20));
    blocks
}

/// Address space that is given back because it is to be limited, and reserved again.
fn limited(heap: &Heap) -> Vec<Block> {
    let caller = heap.caller(true);
    let mut blocks: Vec<Block> = Vec::new();
    for limit in [256 << 20, 64 << 20, 8 << 20] {
        for size in [100, 5000, 100_000, 3 << 20, 5 << 20] {
            blocks.extend(caller.alloc(size));
        }
        fit_address_limit(limit, || ());
        // Beyond an eighth of the last two limits.
        blocks.extend((0..3).filter_map(|_| caller.zeroed(3 << 20)));
        blocks = caller.thin_out(blocks, 2);
    }
    blocks
}

/// Threads that end and leave their blocks to be freed by others, while one of them gives memory
/// back.
fn threads(heap: &Heap) -> Vec<Block> {
    let (send, receive) = mpsc::channel::<Block>();
    thread::scope(|scope| {
        for number in 0..6 {
            let send = send.clone();
            let work = move || {
                let caller = heap.caller(false);
                for i in 0..400 {
                    let size = [40, 300, 2000, 9000, 100_000][(i + number) % 5];
                    let Some(block) = caller.alloc(size) else {
                        continue;
                    };
                    match i % 3 {
                        0 => caller.free(block),
                        _ => send.send(block).unwrap(),
                    }
                }
                if number % 2 == 0 {
                    trim();
                }
            };
            // Two at a time: the others adopt the heaps of those that ended.
            let worker = scope.spawn(work);
            if number % 2 == 1 {
                worker.join().unwrap();
            }
        }
        drop(send);
        let freer = scope.spawn(move || {
            let caller = heap.caller(false);
            let mut blocks = receive.into_iter();
            blocks.by_ref().take(700).for_each(|b| caller.free(b));
            blocks.collect()
        });
        freer.join().unwrap()
    })
}
