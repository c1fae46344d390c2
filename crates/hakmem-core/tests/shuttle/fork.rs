use crate::{Shared, check, layout};
use hakmem_core::model;
use shuttle::thread;

/// What the child of a fork may do: it allocates blocks of every kind and frees them. It purges
/// free memory without its parent's scavenger.
fn child() -> bool {
    let shared = Shared::new();
    let mut oracle = shared.oracle(1000);
    for size in [24, 1024, 8192, 100 << 10, 3 << 20] {
        let blocks: Vec<_> = (0..20).map(|_| oracle.alloc(layout(size))).collect();
        blocks.into_iter().for_each(|block| oracle.dealloc(block));
    }
    shared.ranges.assert_empty();
    model::pass_time(1000);
    let last = oracle.alloc(layout(3 << 20));
    oracle.dealloc(last);
    // Of free memory only the last huge block may remain: it is younger than the decay.
    model::free_bytes() <= 8 << 20
}

/// Threads use blocks of every kind, the scavenger starts and exits, and a thread forks at any
/// moment.
fn churn(with_scavenger: bool) {
    model::scavenge_from(u32::from(with_scavenger));
    let shared = Shared::new();
    let threads: Vec<_> = (0..2)
        .map(|salt| {
            thread::spawn(move || {
                let mut oracle = shared.oracle(salt);
                for _ in 0..2 {
                    let blocks =
                        [1024, 8192, 100 << 10, 3 << 20].map(|size| oracle.alloc(layout(size)));
                    for (i, block) in blocks.into_iter().enumerate() {
                        if i == 0 {
                            shared.leave(block)
                        } else {
                            oracle.dealloc(block)
                        }
                    }
                    shared.free_left(salt);
                }
            })
        })
        .collect();
    let forks = thread::spawn(move || {
        let mut oracle = shared.oracle(9);
        let block = oracle.alloc(layout(64));
        for _ in 0..2 {
            thread::yield_now();
            assert!(model::fork(child), "the child of a fork failed");
        }
        oracle.dealloc(block);
    });
    for thread in threads {
        thread.join().unwrap();
    }
    forks.join().unwrap();
    shared.end();
    model::await_scavenger();
}

/// A fork may come at any moment: its child can allocate, free and purge.
#[test]
fn a_fork_finds_every_lock_and_heap_in_order() {
    check(
        "fork::a_fork_finds_every_lock_and_heap_in_order",
        40,
        || churn(false),
        &["ForkLeavesALock"],
    );
}

/// The same holds if the scavenger starts, works or ends at that moment.
#[test]
fn a_fork_meets_the_scavenger() {
    check(
        "fork::a_fork_meets_the_scavenger",
        40,
        || churn(true),
        &["ForkKeepsScavenger"],
    );
}
