//! What the threads do: each role calls the allocator in its own way until the stage says
//! otherwise.

use super::forked;
use super::heap::{allocate, any_size, free, resize, verify};
use super::pattern::Block;
use super::stage::{ROLES, Stage};
use hakmem_bench::rng::Rng;
use hakmem_bench::storage::Table;
use std::thread;

/// One role.
pub struct Role {
    /// Its name in messages.
    pub name: &'static str,
    /// The threads that play it at the same time.
    pub threads: usize,
    /// What one of them does: number of the role, of the thread.
    pub play: fn(&Stage, usize, usize),
}

/// All of them.
pub const ALL: [Role; ROLES] = [
    Role {
        name: "churn",
        threads: 3,
        play: churn,
    },
    Role {
        name: "remote",
        threads: 2,
        play: remote,
    },
    Role {
        name: "respawn",
        threads: 1,
        play: respawn,
    },
    Role {
        name: "huge",
        threads: 1,
        play: huge,
    },
    Role {
        name: "bulk",
        threads: 1,
        play: bulk,
    },
    Role {
        name: "forks",
        threads: 1,
        play: forked::play,
    },
    Role {
        name: "trim",
        threads: 1,
        play: trim,
    },
];

/// Replaces blocks of its own at random, resizes some, leaves some to others. Every so often the
/// thread ends and the next one goes on with its blocks.
fn churn(stage: &Stage, role: usize, number: usize) {
    const BLOCKS: usize = 12_000;
    let mut rng = stage.numbers(role, number);
    let mut blocks = Table::new(BLOCKS);
    let mut goes_on = true;
    while goes_on {
        let life = 1 << rng.between(12, 19);
        let (rng, blocks) = (&mut rng, &mut blocks);
        goes_on = thread::scope(|s| {
            s.spawn(|| replace(stage, role, rng, blocks, life))
                .join()
                .unwrap_or(false)
        });
    }
    while let Some(block) = blocks.pop() {
        free(block);
    }
}

fn replace(
    stage: &Stage,
    role: usize,
    rng: &mut Rng,
    blocks: &mut Table<Block>,
    life: usize,
) -> bool {
    let full = 12_000;
    for _ in 0..life {
        if !stage.goes_on(role) {
            return false;
        }
        let size = any_size(rng);
        if blocks.len() < full {
            let block = allocate(rng, size);
            blocks.push(block);
            continue;
        }
        let at = rng.below(full);
        let last = full - 1;
        blocks.swap(at, last);
        let Some(old) = blocks.pop() else { continue };
        let new = match rng.below(12) {
            0 => resize(old, size),
            1 => {
                if let Some(other) = stage.leave(old, rng) {
                    free(other);
                }
                allocate(rng, size)
            }
            _ => {
                free(old);
                allocate(rng, size)
            }
        };
        blocks.push(new);
    }
    true
}

/// One thread allocates in batches for others, the other frees what is there, whoever made it.
fn remote(stage: &Stage, role: usize, number: usize) {
    let mut rng = stage.numbers(role, number);
    while stage.goes_on(role) {
        for _ in 0..512 {
            let left = if number == 0 {
                let size = rng.between(8, 600);
                let block = allocate(&mut rng, size);
                stage.leave(block, &mut rng)
            } else {
                stage.take()
            };
            match left {
                Some(block) => free(block),
                None if number > 0 => thread::yield_now(),
                None => {}
            }
        }
    }
}

/// Threads that allocate a little and end, eight at a time; half of their blocks outlive them.
fn respawn(stage: &Stage, role: usize, number: usize) {
    let mut rng = stage.numbers(role, number);
    while stage.goes_on(role) {
        let seeds: [u64; 8] = std::array::from_fn(|_| rng.bits());
        thread::scope(|s| {
            for seed in seeds {
                s.spawn(move || short_life(stage, &mut Rng::new(seed)));
            }
        });
    }
}

fn short_life(stage: &Stage, rng: &mut Rng) {
    let mut kept = Table::new(64);
    for i in 0..128 {
        let size = any_size(rng);
        let block = allocate(rng, size);
        if i % 2 == 0 {
            kept.push(block);
        } else if let Some(other) = stage.leave(block, rng) {
            free(other);
        }
    }
    while let Some(block) = kept.pop() {
        free(block);
    }
}

/// A few blocks of many megabytes, replaced and resized, and a buffer that grows from small to
/// large.
fn huge(stage: &Stage, role: usize, number: usize) {
    let mut rng = stage.numbers(role, number);
    let mut blocks = Table::new(6);
    while stage.goes_on(role) {
        let size = rng.between(1 << 20, 12 << 20);
        if blocks.len() < 6 {
            let block = allocate(&mut rng, size);
            blocks.push(block);
            continue;
        }
        let (at, last) = (rng.below(6), 5);
        blocks.swap(at, last);
        let Some(old) = blocks.pop() else { continue };
        let new = match rng.below(4) {
            0 => resize(old, size),
            1 => {
                grow(&mut rng);
                old
            }
            _ => {
                free(old);
                allocate(&mut rng, size)
            }
        };
        blocks.push(new);
    }
    while let Some(block) = blocks.pop() {
        free(block);
    }
}

fn grow(rng: &mut Rng) {
    let mut size = rng.between(100, 100_000);
    let mut buffer = allocate(rng, size);
    while size < 24 << 20 {
        size += size / 2;
        buffer = resize(buffer, size);
    }
    let small = rng.between(1, size);
    free(resize(buffer, small));
}

/// Many small blocks, of which first all but a few are freed, then these.
fn bulk(stage: &Stage, role: usize, number: usize) {
    const BLOCKS: usize = 150_000;
    let mut rng = stage.numbers(role, number);
    let mut blocks: Table<Block> = Table::new(BLOCKS);
    let mut kept: Table<Block> = Table::new(BLOCKS);
    while stage.goes_on(role) {
        let size = rng.between(16, 200);
        while blocks.len() < BLOCKS && stage.goes_on(role) {
            let block = allocate(&mut rng, size);
            blocks.push(block);
        }
        while let Some(block) = blocks.pop() {
            // One in 64 stays while the next such heap is made: so few blocks of many pages stay.
            if rng.below(64) == 0 && kept.len() < BLOCKS {
                kept.push(block);
            } else {
                free(block);
            }
        }
        while kept.len() > BLOCKS / 32 {
            let Some(block) = kept.pop() else { break };
            free(block);
        }
    }
    while let Some(block) = kept.pop() {
        free(block);
    }
}

/// Calls that look at the whole heap or give it back, now and then, beside a few blocks that stay.
fn trim(stage: &Stage, role: usize, number: usize) {
    let mut rng = stage.numbers(role, number);
    let stays = allocate(&mut rng, 100_000);
    while stage.goes_on(role) {
        // SAFETY: takes a number.
        unsafe { libc::malloc_trim(0) };
        // SAFETY: takes nothing.
        let info = unsafe { libc::mallinfo2() };
        verify(&stays);
        std::hint::black_box(info.uordblks);
        thread::sleep(std::time::Duration::from_millis(700));
    }
    free(stays);
}
