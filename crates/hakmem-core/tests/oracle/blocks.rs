//! What tests do with blocks.

use super::{Block, Oracle, Ranges, Rust};
use std::alloc::Layout;
use std::thread;

/// Of so many bytes, at multiples of 8.
pub fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// In a thread of its own, which has ended when this returns.
pub fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(f).join()).expect("the thread failed")
}

/// Frees the blocks, here, whoever has allocated them.
pub fn free_all(ranges: &Ranges, blocks: Vec<Block>) {
    let mut oracle = Oracle::new(Rust, ranges, 1);
    blocks.into_iter().for_each(|block| oracle.dealloc(block));
}
