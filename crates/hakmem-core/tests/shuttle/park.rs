use crate::{Shared, check, layout};
use hakmem_core::model;
use shuttle::thread;

/// The size of the blocks. A page has eight of them.
const SIZE: usize = 8192;
/// The owner's list keeps the freed blocks of one page, and four pages are candidates. So the owner
/// parks some of the others.
const PAGES: usize = 12;

/// Threads park pages with few live blocks, purge them and take them back, while other threads free
/// blocks of them.
#[test]
fn blocks_follow_a_page_that_changes_hands() {
    check(
        "park::blocks_follow_a_page_that_changes_hands",
        12_000,
        || {
            let shared = Shared::new();
            let owner = thread::spawn(move || {
                let mut oracle = shared.oracle(0);
                let own: Vec<_> = (0..8 * PAGES).map(|_| oracle.alloc(layout(SIZE))).collect();
                // One block or two of each page stay live.
                let mut live = Vec::new();
                for (i, block) in own.into_iter().enumerate() {
                    if i % 8 <= i / 8 % 2 {
                        live.push(block)
                    } else {
                        oracle.dealloc(block)
                    }
                }
                // The others start when pages are parked. Else they would end before that.
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
                // Any thread frees these.
                for block in live {
                    shared.leave(block);
                }
                // Takes more than it has kept, so some of the pages too.
                for _ in 0..2 {
                    let again: Vec<_> = (0..6 * PAGES)
                        .map(|_| {
                            shared.point();
                            oracle.alloc(layout(SIZE))
                        })
                        .collect();
                    again.into_iter().for_each(|block| oracle.dealloc(block));
                }
                for freer in freers {
                    freer.join().unwrap();
                }
                purger.join().unwrap();
            });
            owner.join().unwrap();
            shared.end();
        },
        &[
            "HeapKeepsOthersBatches",
            "InboxKeepsWhatItGives",
            "PurgeKeepsTheOwner",
        ],
    );
}
