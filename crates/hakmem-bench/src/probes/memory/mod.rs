//! The probes of resident memory. They allocate, free, and then call [`rest`], during which the parent looks at the
//! process from outside: the allocator is not called any more.

use crate::heap::{Fixed, Heap};
use crate::rng::Rng;
use crate::storage::Table;
use crate::workloads::Scale;
use std::alloc::System;
use std::mem;
use std::sync::Barrier;
use std::thread;

/// The size of the small blocks.
const SIZE: usize = 120;
/// One block in this many is kept, if any.
const KEPT: usize = 256;

/// One probe of memory.
#[derive(Debug)]
pub struct Body {
    name: &'static str,
    count: u64,
    run: fn(usize),
}

const ALL: [Body; 5] = [
    Body {
        name: "nothing_preloaded",
        count: 0,
        run: |_| rest(),
    },
    Body {
        name: "idle",
        count: 5_000_000,
        run: idle,
    },
    Body {
        name: "sparse",
        count: 4_000_000,
        run: |count| sparse(count, false),
    },
    Body {
        name: "sparse_trim",
        count: 4_000_000,
        run: |count| sparse(count, true),
    },
    Body {
        name: "ended_200",
        count: 200,
        run: ended,
    },
];

/// The probe called `name`.
pub fn find(name: &str) -> Option<&'static Body> {
    const { &ALL }.iter().find(|b| b.name == name)
}

impl Body {
    /// Runs it; returns once the parent has seen enough.
    pub fn run(&self, scale: Scale) {
        let count = match scale {
            Scale::Full => self.count,
            Scale::Quick => self.count / 5,
            Scale::Smoke => self.count / 100,
        };
        (self.run)(count as usize);
    }
}

/// Tells the parent that the work is done and waits until it closes its end, without a call to the allocator.
fn rest() {
    let mut byte = 0_u8;
    // SAFETY: one byte is read from and written to a live variable. A parent that is gone shows as an error of the
    // one or an end of the other, and the process ends in either case.
    unsafe {
        libc::write(libc::STDOUT_FILENO, (&raw const byte).cast(), 1);
        libc::read(libc::STDIN_FILENO, (&raw mut byte).cast(), 1);
    }
}

/// All freed. The table stays, so that it counts alike on every allocator.
fn idle(count: usize) {
    let mut blocks = Table::filled(count, |_| Heap::<System>::new().fixed::<SIZE>());
    blocks.clear();
    rest();
    drop(blocks);
}

/// All freed but a few, each of which holds a page of the system's back whatever the allocator does. The table is
/// unmapped.
fn sparse(count: usize, trim: bool) {
    let mut blocks: Table<Option<Fixed<System, SIZE>>> =
        Table::filled(count, |_| Some(Heap::new().fixed()));
    for (i, slot) in blocks.iter_mut().enumerate() {
        let block = slot.take();
        if i % KEPT == 0 {
            mem::forget(block);
        }
    }
    drop(blocks);
    if trim {
        trim_memory();
    }
    rest();
}

#[cfg(target_env = "gnu")]
fn trim_memory() {
    // SAFETY: takes a number; any thread may call it at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim_memory() {}

/// Threads that allocate at the same time, and have ended.
fn ended(count: usize) {
    const BLOCKS: usize = 100;
    let all_filled = Barrier::new(count);
    thread::scope(|scope| {
        for seed in 0..count as u64 {
            let all_filled = &all_filled;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                let mut blocks: [_; BLOCKS] =
                    std::array::from_fn(|_| Heap::<System>::new().block(rng.between(16, 1024)));
                all_filled.wait();
                for _ in 0..10_000 {
                    blocks[rng.below(BLOCKS)] = Heap::new().block(rng.between(16, 1024));
                }
            });
        }
    });
    rest();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_of_the_tables_is_a_pointer() {
        assert_eq!(size_of::<Fixed<System, SIZE>>(), size_of::<usize>());
        assert_eq!(size_of::<Option<Fixed<System, SIZE>>>(), size_of::<usize>());
    }
}
