//! Many small blocks of one size, of which few or none stay.

use crate::heap::{Fixed, Heap};
use crate::probes::stage::Stage;
use crate::storage::Table;
use std::alloc::System;
use std::mem;

/// The size of the small blocks.
const SIZE: usize = 120;
/// One block in this many is kept, if any.
const KEPT: usize = 256;

/// All freed. The table stays, so that it counts alike on every allocator.
pub fn idle(count: usize) {
    let mut blocks = Table::filled(count, |_| Heap::<System>::new().fixed::<SIZE>());
    blocks.clear();
    Stage::default().rest();
    drop(blocks);
}

/// All freed but a few, each of which holds a page of the system's back whatever the allocator
/// does. The table is unmapped.
pub fn sparse(count: usize, trim: bool) {
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
    Stage::default().rest();
}

#[cfg(target_env = "gnu")]
fn trim_memory() {
    // SAFETY: takes a number; any thread may call it at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim_memory() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_of_the_tables_is_a_pointer() {
        assert_eq!(size_of::<Fixed<System, SIZE>>(), size_of::<usize>());
        assert_eq!(size_of::<Option<Fixed<System, SIZE>>>(), size_of::<usize>());
    }
}
