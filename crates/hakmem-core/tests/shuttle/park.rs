use crate::{Shared, check, layout};
use hakmem_core::model;
use shuttle::thread;

/// Blocks of a page of this size, which has eight.
const SIZE: usize = 8192;
const PAGES: usize = 7;

/// Pages with few blocks out are parked, purged and unparked while other threads free blocks of them.
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
                // Few of each page stay, and are anybody's to free.
                for (i, block) in own.drain(..).enumerate().collect::<Vec<_>>() {
                    if i % 8 < 2 {
                        shared.leave(block)
                    } else {
                        oracle.dealloc(block)
                    }
                }
                // Takes some back.
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
        &["HeapKeepsStrayBatches", "InboxKeepsWhatItGives"],
    );
}
