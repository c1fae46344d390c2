//! dhat profiles the program, and hakmem is in it as a library: dhat's allocator takes its blocks
//! from the C library, or from a preloaded hakmem.

use hakmem::Hakmem;
use std::alloc::{GlobalAlloc, Layout};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Beside the global one, for blocks that the program asks of it by name.
static OWN: Hakmem = Hakmem::new();

fn main() {
    let profiler = dhat::Profiler::builder().testing().build();
    let blocks: Vec<Box<[u8; 100]>> = (0..1000).map(|_| Box::new([1; 100])).collect();
    let dhat = dhat::HeapStats::get();
    assert!(dhat.curr_blocks >= 1000 && dhat.curr_bytes >= 100_000, "{dhat:?}");

    let layout = Layout::new::<[u64; 100]>();
    let before = hakmem::stats::process().live_bytes;
    // SAFETY: the layout has a size, and the block is freed with it, once.
    unsafe {
        let block = OWN.alloc(layout);
        assert!(!block.is_null());
        assert!(hakmem::stats::process().live_bytes >= before + 800);
        OWN.dealloc(block, layout);
    }
    assert_eq!(
        dhat::HeapStats::get().curr_blocks,
        dhat.curr_blocks,
        "dhat sees its own blocks alone"
    );
    drop(blocks);
    drop(profiler);
    println!("dhat: {} blocks", dhat.curr_blocks);
}
