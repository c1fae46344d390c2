use crate::check;
use crate::proto::heap_state::{Adopted, HeapState, Tidied, With};
use crate::proto::id_stack::IdStack;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

struct Heap {
    pool: IdStack,
    link: AtomicU64,
    state: HeapState,
    inside: UnsafeCell<usize>,
}

impl Heap {
    fn live() -> Arc<Self> {
        let heap = Heap {
            pool: IdStack::new(),
            link: AtomicU64::new(0),
            state: HeapState::new(),
            inside: UnsafeCell::new(0),
        };
        assert_eq!(heap.state.adopt(1), Adopted::Yes);
        Arc::new(heap)
    }

    fn work(&self) {
        self.inside.with_mut(|n| unsafe { *n += 1 });
    }

    fn push(&self) {
        self.pool.push(1, &self.link);
    }

    /// Tidies the heap if it is idle, and puts it back if it was popped meanwhile. Returns true if
    /// it was tidied.
    fn tidy(&self) -> bool {
        let tidied = self.state.tidy(3, || self.work());
        if tidied == Tidied::Popped {
            self.push();
        }
        tidied != Tidied::No
    }

    /// Pops and adopts the heap, and works with it. Returns true if the thread got it.
    fn adopt(&self) -> bool {
        let had = self.pool.pop(|_| &self.link).is_some() && self.state.adopt(2) == Adopted::Yes;
        if had {
            self.work();
        }
        had
    }
}

/// A thread ends, another one tidies its heap, and a third wants a heap. One thread at a time holds
/// the heap, and each sees what the last holder did.
#[test]
fn a_heap_is_tidied_by_nobody_else() {
    check(
        || {
            let heap = Heap::live();
            let ends = {
                let heap = heap.clone();
                thread::spawn(move || {
                    heap.work();
                    heap.state.give_up();
                    heap.push();
                })
            };
            let tidies = {
                let heap = heap.clone();
                thread::spawn(move || heap.tidy())
            };
            let mut adopted = heap.adopt();
            ends.join().unwrap();
            let visits = 1 + usize::from(tidies.join().unwrap());
            // If the adopter left the heap to the tidier, it is in the pool again.
            adopted = adopted || heap.adopt();
            assert!(adopted, "the heap is gone from the pool");
            assert_eq!(heap.inside.with(|n| unsafe { *n }), visits + 1);
        },
        &[
            "HeapStateAdoptsWhileTidied",
            "HeapStateAdoptsRelaxed",
            "HeapStateEndsRelaxed",
            "HeapStateTidiesLive",
            "HeapStateForgetsPopped",
        ],
    );
}

/// No thread adopts or tidies a heap that a fork left in disorder, though it may still be in the
/// pool.
#[test]
fn a_lost_heap_is_not_adopted() {
    check(
        || {
            let heap = Heap::live();
            assert_eq!(heap.state.with(), With::Thread(1));
            heap.state.lose();
            heap.push();
            assert!(!heap.adopt() && !heap.tidy());
            assert_eq!(heap.state.with(), With::Nobody);
        },
        &["HeapStateAdoptsLost"],
    );
}
