use crate::{Shared, check, layout};
use hakmem_core::model;
use shuttle::thread;

/// Threads allocate and free large blocks and pages, while another thread purges free memory. No
/// purge clears a live block, and memory that the allocator takes for zero is zero.
#[test]
fn memory_is_given_back_while_it_is_used_again() {
    check(
        "purge::memory_is_given_back_while_it_is_used_again",
        150,
        || {
            let shared = Shared::new();
            let threads: Vec<_> = (0..2)
                .map(|salt| {
                    thread::spawn(move || {
                        let mut oracle = shared.oracle(salt);
                        for i in 0..3 {
                            // More than a heap's cache holds.
                            let large = oracle.alloc_zeroed(layout(600 << 10));
                            let other = oracle.alloc_zeroed(layout(500 << 10));
                            let page = oracle.alloc_zeroed(layout(8192));
                            oracle.dealloc(large);
                            oracle.dealloc(other);
                            if i == 1 {
                                shared.leave(page)
                            } else {
                                oracle.dealloc(page)
                            }
                        }
                    })
                })
                .collect();
            let purger = thread::spawn(|| {
                for _ in 0..4 {
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
