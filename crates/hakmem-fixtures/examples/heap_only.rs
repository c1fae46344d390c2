//! A program whose allocator is not hakmem. It uses hakmem for a heap of its own alone, which ends
//! before the program does.

use core::alloc::Layout;
use hakmem::Heap;

fn main() {
    let heap = Heap::named("only");
    for _ in 0..1000 {
        assert!(heap.allocate(Layout::new::<[u8; 4096]>()).is_ok());
    }
    assert_eq!(heap.stats().blocks(), 1000);
}
