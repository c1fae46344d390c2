use crate::check;
use hakmem_core::mutant::Mutant;
use hakmem_core::proto::pool::Pool;
use hakmem_core::proto::tenure::{Tenure, With};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

struct Heap {
    pool: Pool,
    link: AtomicU64,
    tenure: Tenure,
    inside: UnsafeCell<usize>,
}

impl Heap {
    fn live() -> Arc<Self> {
        let heap = Heap {
            pool: Pool::new(),
            link: AtomicU64::new(0),
            tenure: Tenure::new(),
            inside: UnsafeCell::new(0),
        };
        assert!(heap.tenure.adopt(1));
        Arc::new(heap)
    }

    fn work(&self) {
        self.inside.with_mut(|n| unsafe { *n += 1 });
    }
}

/// A thread ends, another one tidies, a third wants a heap: the heap is one's at a time, and each sees what the last
/// one did.
#[test]
fn a_heap_is_tidied_by_nobody_else() {
    check(
        || {
            let heap = Heap::live();
            let ends = {
                let heap = heap.clone();
                thread::spawn(move || {
                    heap.work();
                    heap.tenure.give_up();
                    heap.pool.push(1, &heap.link);
                })
            };
            let tidies = {
                let heap = heap.clone();
                thread::spawn(move || heap.tenure.tidy(|| heap.work()))
            };
            let mut visits = 1;
            if heap.pool.pop(|_| &heap.link).is_some() && heap.tenure.adopt(2) {
                heap.work();
                visits += 1;
            }
            ends.join().unwrap();
            visits += usize::from(tidies.join().unwrap());
            assert_eq!(heap.inside.with(|n| unsafe { *n }), visits);
        },
        &[
            Mutant::TenureAdoptsWhileTidied,
            Mutant::TenureAdoptsRelaxed,
            Mutant::TenureEndsRelaxed,
            Mutant::TenureTidiesLive,
        ],
    );
}

/// A heap that a fork found in disorder is nobody's any more, though it comes out of the pool.
#[test]
fn a_lost_heap_is_not_adopted() {
    check(
        || {
            let heap = Heap::live();
            assert_eq!(heap.tenure.with(), With::Thread(1));
            heap.tenure.lose();
            heap.pool.push(1, &heap.link);
            assert!(heap.pool.pop(|_| &heap.link).is_some());
            assert!(!heap.tenure.adopt(1) && !heap.tenure.tidy(|| heap.work()));
            assert_eq!(heap.tenure.with(), With::Nobody);
        },
        &[Mutant::TenureAdoptsLost],
    );
}
