use crate::check;
use crate::proto::worker::{Call, Worker};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::*};
use loom::thread;

struct Place {
    worker: Worker,
    work: AtomicBool,
    /// The worker's stack. One worker at a time uses it: loom reports others.
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
        // The last one's thread may have ended between two looks.
        self.worker
            .begin(|| self.worker.alive.load(Acquire) == 0, make)
    }

    /// The worker's life. At its end a store clears `alive`, as the kernel does.
    fn serve(&self) {
        loop {
            self.work.swap(false, Relaxed);
            self.stack.with_mut(|s| unsafe { *s += 1 });
            if self.worker.end(|| self.work.load(Relaxed)) {
                break;
            }
        }
        // The worker's thread returns.
        self.stack.with_mut(|s| unsafe { *s += 1 });
        self.worker.alive.store(0, Release);
    }
}

/// A caller makes work while the worker ends. The worker sees the work, or the caller sees that
/// there is no worker. No two workers use the stack at once.
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
                        place.work.store(false, Relaxed); // The caller does the work itself.
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

/// A thread holds the worker off, while a caller begins it. If the holder finds the worker gone, no
/// worker uses the stack until the holder releases.
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
                        // The worker's thread returns.
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

/// A caller relieves a worker that naps. If the worker's thread does not end in time, the caller
/// keeps the worker. Meanwhile the worker wakes and leaves, and another worker is begun and held
/// off. Once the threads are gone, no phase says that a worker is there.
#[test]
fn who_is_relieved_and_kept_is_there() {
    check(
        || {
            let place = Place::new();
            assert!(place.begin() && place.worker.nap().is_some());
            let workers = {
                let place = place.clone();
                thread::spawn(move || {
                    if place.worker.resume() {
                        assert!(place.worker.end(|| false));
                    }
                    place.worker.alive.store(0, Release);
                    // The life of the next worker, if one may begin.
                    let mut made = false;
                    let make = || {
                        place.worker.alive.store(1, Relaxed);
                        made = true;
                        true
                    };
                    place.worker.begin(|| false, make);
                    if made {
                        place.worker.hold();
                        place.worker.release();
                        assert!(place.worker.nap().is_none());
                        place.worker.alive.store(0, Release);
                    }
                })
            };
            if place.worker.relieve() {
                place.worker.keep();
            }
            workers.join().unwrap();
            assert_eq!(place.worker.call(), Call::None);
            assert!(place.worker.is_gone());
        },
        &["WorkerResumesInTwoSteps", "WorkerRelievesAlone"],
    );
}
