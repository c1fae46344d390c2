use crate::{Shared, check, layout};
use hakmem_core::model;
use shuttle::thread;

/// Large blocks are so many bytes, or a multiple.
const SLOT: usize = 64 << 10;

/// Threads allocate and free large blocks and pages, while another thread purges free memory. No
/// purge clears a live block, and memory that the allocator takes for zero is zero.
#[test]
fn memory_is_given_back_while_it_is_used_again() {
    check(
        "purge::memory_is_given_back_while_it_is_used_again",
        600,
        || {
            let shared = Shared::new();
            let threads: Vec<_> = (0..2)
                .map(|salt| {
                    thread::spawn(move || {
                        let mut oracle = shared.oracle(salt);
                        let mut last = None;
                        for i in 0..6 {
                            // The heap's cache has no block of this length. So each allocation
                            // claims slots, while the last block is live.
                            let large = oracle.alloc_zeroed(layout((9 + i) * SLOT));
                            if let Some(block) = last.replace(large) {
                                oracle.dealloc(block);
                            }
                            let page = oracle.alloc_zeroed(layout(8192));
                            if i % 2 == 1 {
                                shared.leave(page)
                            } else {
                                oracle.dealloc(page)
                            }
                        }
                        last.into_iter().for_each(|block| oracle.dealloc(block));
                    })
                })
                .collect();
            let purger = thread::spawn(|| {
                for _ in 0..8 {
                    model::trim();
                }
            });
            for thread in threads {
                thread.join().unwrap();
            }
            purger.join().unwrap();
            shared.end();
        },
        &["SlotsPurgeWithoutOwning", "SlotsStayEmpty"],
    );
}
