use crate::{Shared, check, layout};
use hakmem_core::model;
use shuttle::thread;

/// A thread ends while others free its blocks, and a new thread adopts its heap. Every block
/// arrives, and no thread gets a block that is live.
#[test]
fn a_thread_ends_while_its_blocks_are_freed() {
    check(
        "exit::a_thread_ends_while_its_blocks_are_freed",
        3000,
        || {
            let shared = Shared::new();
            let threads: Vec<_> = (0..3)
                .map(|salt| {
                    thread::spawn(move || {
                        let mut oracle = shared.oracle(salt);
                        for _ in 0..4 {
                            shared.leave(oracle.alloc(layout(8192)));
                            let own = oracle.alloc(layout(8192));
                            if let Some(block) = shared.take() {
                                oracle.dealloc(block);
                            }
                            oracle.dealloc(own);
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            shared.end();
        },
        &["InboxKeepsWhatItGives", "HeapEndsUnsent"],
    );
}

/// A thread merges the inbox of an idle heap while a new thread adopts the heap. One holds it after
/// the other.
#[test]
fn a_heap_is_adopted_while_its_inbox_is_merged() {
    check(
        "exit::a_heap_is_adopted_while_its_inbox_is_merged",
        9000,
        || {
            let shared = Shared::new();
            let frees = thread::spawn(move || {
                let mut oracle = shared.oracle(0);
                // Now this thread has a heap, so it does not adopt that of `first`.
                let own = oracle.alloc(layout(64));
                // Ends while blocks of its heap are live.
                let first = thread::spawn(move || {
                    let mut oracle = shared.oracle(1);
                    for _ in 0..12 {
                        shared.leave(oracle.alloc(layout(8192)));
                    }
                });
                first.join().unwrap();
                let adopters = [2, 3].map(|salt| {
                    thread::spawn(move || {
                        let mut oracle = shared.oracle(salt);
                        let own: Vec<_> = (0..24)
                            .map(|_| {
                                shared.point();
                                oracle.alloc(layout(8192))
                            })
                            .collect();
                        own.into_iter().for_each(|block| {
                            shared.point();
                            oracle.dealloc(block)
                        });
                    })
                });
                let purger = thread::spawn(|| {
                    for _ in 0..4 {
                        model::trim();
                    }
                });
                // Sends two at a time, so the heap gets frees after it was adopted too.
                for _ in 0..12 {
                    let block = shared.take().expect("they were left");
                    oracle.dealloc(block);
                }
                oracle.dealloc(own);
                for thread in adopters {
                    thread.join().unwrap();
                }
                purger.join().unwrap();
            });
            frees.join().unwrap();
            shared.end();
        },
        &["HeapStateTidiesLive"],
    );
}
