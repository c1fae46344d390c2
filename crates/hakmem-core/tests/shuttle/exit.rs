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
            // Ends while blocks of its heap are live.
            let first = thread::spawn(move || {
                let mut oracle = shared.oracle(0);
                for _ in 0..6 {
                    shared.leave(oracle.alloc(layout(8192)));
                }
            });
            first.join().unwrap();
            // Frees some of them from a heap of its own, and sends them when it ends.
            let frees = thread::spawn(move || {
                let mut oracle = shared.oracle(1);
                for _ in 0..3 {
                    let block = shared.take().expect("they were left");
                    oracle.dealloc(block);
                }
            });
            let adopts = |salt| {
                thread::spawn(move || {
                    let mut oracle = shared.oracle(salt);
                    let mut own: Vec<_> = (0..12)
                        .map(|_| {
                            shared.point();
                            oracle.alloc(layout(8192))
                        })
                        .collect();
                    own.drain(..).for_each(|block| {
                        shared.point();
                        oracle.dealloc(block)
                    });
                })
            };
            let adopters = [adopts(2), adopts(3)];
            model::trim();
            model::trim();
            frees.join().unwrap();
            for adopter in adopters {
                adopter.join().unwrap();
            }
            shared.end();
        },
        &["HeapStateTidiesLive"],
    );
}
