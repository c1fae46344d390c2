use crate::{Shared, check, layout};
use hakmem_core::model;
use shuttle::thread;

/// All that the child of a fork may do: it allocates of every kind, frees, and gives back what lies idle without its
/// parent's scavenger.
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
    // The huge block that was freed last is younger than the decay.
    model::idle_bytes() <= 8 << 20
}

/// Threads of all habits, a scavenger that comes and goes, and a fork at any moment.
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

/// The child of a fork at any moment can allocate, free and give back.
#[test]
fn a_fork_finds_every_lock_and_heap_in_order() {
    check(
        "fork::a_fork_finds_every_lock_and_heap_in_order",
        40,
        || churn(false),
        &["ForkLeavesALock"],
    );
}

/// So it can where the scavenger begins, works and ends at that moment.
#[test]
fn a_fork_meets_the_scavenger() {
    check(
        "fork::a_fork_meets_the_scavenger",
        40,
        || churn(true),
        &["ForkKeepsScavenger"],
    );
}
