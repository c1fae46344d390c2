use crate::check;
use crate::proto::lock::Lock;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The books of the heap profile, and the table of a program heap's samples, each under its own
/// lock (`profile::kept`).
struct Heap {
    books: Lock,
    /// Samples taken and freed.
    counts: UnsafeCell<(u32, u32)>,
    lock: Lock,
    table: UnsafeCell<Option<u32>>,
}
unsafe impl Sync for Heap {}
unsafe impl Send for Heap {}

impl Heap {
    /// Samples a block, as a thread that allocates it.
    fn keep(&self, me: u32, sample: u32) {
        {
            let _books = self.books.lock_as(me);
            self.counts.with_mut(|counts| unsafe { (*counts).0 += 1 });
        }
        let _locked = self.lock.lock_as(me);
        self.table
            .with_mut(|table| unsafe { *table = Some(sample) });
    }

    /// Frees the block, if it is a sample by now.
    fn free(&self, me: u32) -> bool {
        let sample = {
            let _locked = self.lock.lock_as(me);
            self.table.with_mut(|table| unsafe { (*table).take() })
        };
        if sample.is_some() {
            let _books = self.books.lock_as(me);
            self.counts.with_mut(|counts| unsafe {
                (*counts).1 += 1;
                assert!((*counts).1 <= (*counts).0, "freed, but not yet taken");
            });
        }
        sample.is_some()
    }
}

/// One thread samples a block, which two threads look for. One of them finds the sample, and its
/// free counts behind the allocation.
#[test]
fn a_sample_is_taken_before_it_is_freed() {
    check(
        || {
            let heap = Arc::new(Heap {
                books: Lock::new(),
                counts: UnsafeCell::new((0, 0)),
                lock: Lock::new(),
                table: UnsafeCell::new(None),
            });
            let other = {
                let heap = heap.clone();
                thread::spawn(move || heap.free(2))
            };
            heap.keep(1, 7);
            let own = heap.free(1);
            assert_ne!(own, other.join().unwrap());
            assert_eq!(heap.counts.with(|counts| unsafe { *counts }), (1, 1));
        },
        &["LockReleasesRelaxed", "LockAcquiresRelaxed"],
    );
}
