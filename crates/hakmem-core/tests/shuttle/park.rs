use crate::{Shared, check, layout};
use hakmem_core::model;
use shuttle::thread;

/// The size of the blocks. A page has eight of them.
const SIZE: usize = 8192;
const PAGES: usize = 7;

/// Threads park pages with few live blocks, purge them and take them back, while other threads free
/// blocks of them.
#[test]
fn blocks_follow_a_page_that_changes_hands() {
    check(
        "park::blocks_follow_a_page_that_changes_hands",
        1500,
        || {
            let shared = Shared::new();
            let owner = thread::spawn(move || {
                let mut oracle = shared.oracle(0);
                let mut own: Vec<_> = (0..8 * PAGES).map(|_| oracle.alloc(layout(SIZE))).collect();
                // Two blocks of each page stay live. Any thread frees them.
                for (i, block) in own.drain(..).enumerate().collect::<Vec<_>>() {
                    if i % 8 < 2 {
                        shared.leave(block)
                    } else {
                        oracle.dealloc(block)
                    }
                }
                // Takes some of the pages back.
                let again: Vec<_> = (0..12).map(|_| oracle.alloc(layout(SIZE))).collect();
                again.into_iter().for_each(|block| oracle.dealloc(block));
            });
            let freers = [1, 2].map(|salt| {
                thread::spawn(move || {
                    for _ in 0..4 {
                        thread::yield_now();
                        shared.free_left(salt);
                    }
                })
            });
            let purger = thread::spawn(|| {
                for _ in 0..3 {
                    model::trim();
                    thread::yield_now();
                }
            });
            owner.join().unwrap();
            for freer in freers {
                freer.join().unwrap();
            }
            purger.join().unwrap();
            shared.end();
        },
        &[
            "HeapKeepsOthersBatches",
            "InboxKeepsWhatItGives",
            "PurgeKeepsTheOwner",
        ],
    );
}
