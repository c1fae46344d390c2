//! A thread allocates and then sleeps, while another one frees its blocks: what is free belongs to
//! a heap whose thread does nothing about it.

use crate::heap::{Fixed, Heap};
use crate::probes::stage::Stage;
use crate::storage::Table;
use std::alloc::System;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

/// The size of the blocks.
const SIZE: usize = 200;
/// How long the process is idle before the thread that freed allocates as much again.
const PAUSE: Duration = Duration::from_secs(3);

type Blocks = Table<Fixed<System, SIZE>>;

/// The process is idle after the frees.
pub fn once(bytes: usize) {
    freed_by_another(bytes, rest);
}

/// The thread that freed allocates as much again.
pub fn twice(bytes: usize) {
    freed_by_another(bytes, |blocks| {
        thread::sleep(PAUSE);
        fill(blocks, bytes);
        rest(blocks);
    });
}

fn rest(blocks: &mut Blocks) {
    let stage = Stage {
        tables: blocks.bytes(),
        ..Stage::default()
    };
    stage.rest();
}

/// Calls `after` in a thread that has freed, in order, the blocks of one that sleeps.
fn freed_by_another(bytes: usize, after: impl FnOnce(&mut Blocks)) {
    let handed = Mutex::new(None);
    let (filled, done) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut blocks = Table::new(bytes / SIZE);
            fill(&mut blocks, bytes);
            *handed.lock().expect("nobody panics with it") = Some(blocks);
            filled.wait();
            done.wait();
        });
        filled.wait();
        let blocks = handed.lock().expect("nobody panics with it").take();
        let mut blocks: Blocks = blocks.expect("the other thread has filled it");
        blocks.clear();
        after(&mut blocks);
        done.wait();
    });
}

fn fill(blocks: &mut Blocks, bytes: usize) {
    for _ in 0..bytes / SIZE {
        blocks.push(Heap::new().fixed());
    }
}
