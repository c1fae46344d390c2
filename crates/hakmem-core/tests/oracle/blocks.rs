//! Short helpers for tests that allocate and free blocks.

use super::{Block, Oracle, Ranges, Rust};
use std::alloc::Layout;
use std::thread;

/// The layout of `size` bytes with an alignment of 8.
pub fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// Runs `f` in a new thread, and waits for the thread's end.
pub fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(f).join()).expect("the thread failed")
}

/// Frees the blocks in the calling thread. Any thread may have allocated them.
pub fn free_all(ranges: &Ranges, blocks: Vec<Block>) {
    let mut oracle = Oracle::new(Rust, ranges, 1);
    blocks.into_iter().for_each(|block| oracle.dealloc(block));
}
