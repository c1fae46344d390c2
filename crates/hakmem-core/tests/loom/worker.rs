use crate::check;
use crate::proto::worker::{Call, Worker};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::*};
use loom::thread;

struct Place {
    worker: Worker,
    work: AtomicBool,
    /// The worker's, of which there is one at a time.
    stack: UnsafeCell<usize>,
}

impl Place {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            worker: Worker::new(),
            work: AtomicBool::new(true),
            stack: UnsafeCell::new(0),
        })
    }

    fn begin(&self) -> bool {
        let make = || {
            self.worker.alive.store(1, Relaxed);
            self.stack.with_mut(|s| unsafe { *s += 1 });
            true
        };
        self.worker.begin(|| false, make)
    }

    /// The worker's life. The flag is cleared by a store, as the kernel does.
    fn serve(&self) {
        loop {
            self.work.swap(false, Relaxed);
            self.stack.with_mut(|s| unsafe { *s += 1 });
            if self.worker.end(|| self.work.load(Relaxed)) {
                break;
            }
        }
        // It returns.
        self.stack.with_mut(|s| unsafe { *s += 1 });
        self.worker.alive.store(0, Release);
    }
}

/// Work is made while the worker ends: it sees the work, or who made it sees that there is no worker; and no two use
/// the one stack.
#[test]
fn no_work_is_left_without_a_worker() {
    check(
        || {
            let place = Place::new();
            assert!(place.begin());
            let worker = {
                let place = place.clone();
                thread::spawn(move || place.serve())
            };
            place.work.store(true, Relaxed);
            let begun = match place.worker.call() {
                Call::Running => false,
                Call::None => {
                    let begun = place.begin();
                    if !begun {
                        place.work.store(false, Relaxed); // Does it itself.
                    }
                    begun
                }
                Call::Held => unreachable!("nobody holds it off"),
            };
            worker.join().unwrap();
            assert!(begun || !place.work.load(Relaxed), "nobody will do it");
        },
        &[
            "WorkerLooksOnce",
            "WorkerEndsUnfenced",
            "WorkerCallsUnfenced",
            "WorkerForgetsTheLast",
        ],
    );
}

/// Who holds the worker off and finds it gone has everything for itself until it lets go, though a caller begins the worker at
/// the same time.
#[test]
fn who_is_held_off_is_gone() {
    check(
        || {
            let place = Place::new();
            let caller = {
                let place = place.clone();
                thread::spawn(move || {
                    if place.begin() {
                        // The worker's life.
                        if place.worker.nap().is_some() && place.worker.resume() {
                            place.stack.with_mut(|s| unsafe { *s += 1 });
                            place.worker.end(|| false);
                        }
                        // It returns.
                        place.stack.with_mut(|s| unsafe { *s += 1 });
                        place.worker.alive.store(0, Release);
                    }
                })
            };
            place.worker.hold();
            if place.worker.is_gone() {
                place.stack.with_mut(|s| unsafe { *s += 1 });
            }
            place.worker.release();
            caller.join().unwrap();
        },
        &["WorkerGoneByThread", "WorkerGoneRelaxed"],
    );
}
