//! Short helpers for tests that allocate and free blocks.

use super::{Block, FrontEnd, Oracle, Ranges, Rust};
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

/// Several huge blocks with a large alignment grow in turn, so that most of them have to move. The
/// oracle checks where each of them lies afterwards.
pub fn aligned_huge_blocks_grow<D: FrontEnd>(front_end: D) {
    const MIB: usize = 1 << 20;
    let ranges = Ranges::default();
    let mut oracle = Oracle::new(front_end, &ranges, 5);
    for align in [4 * MIB, 64 * MIB] {
        let layout = Layout::from_size_align(3 * MIB, align).unwrap();
        let mut blocks: Vec<_> = (0..4).map(|_| oracle.alloc(layout)).collect();
        for size in (4..12).map(|n| n * MIB) {
            blocks = blocks
                .into_iter()
                .map(|block| oracle.realloc(block, size))
                .collect();
        }
        blocks.into_iter().for_each(|block| oracle.dealloc(block));
    }
}
