//! dhat profiles the program, which knows nothing of hakmem.

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let blocks: Vec<Box<[u8; 100]>> = (0..1000).map(|_| Box::new([1; 100])).collect();
    let stats = dhat::HeapStats::get();
    assert!(stats.curr_blocks >= 1000 && stats.curr_bytes >= 100_000, "{stats:?}");
    drop(blocks);
    println!("dhat: {} blocks", stats.curr_blocks);
}
