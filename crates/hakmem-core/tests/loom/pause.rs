use crate::base::sync::{Ordering, fence};
use crate::check;
use crate::proto::pause::{Pause, changed_hands};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

struct Heap {
    lists: UnsafeCell<u32>,
    pause: Pause,
}
unsafe impl Sync for Heap {}
unsafe impl Send for Heap {}

/// The holder and a purge change the lists of a heap. They never do so at once, and each sees what
/// the other did. loom's cell fails the model otherwise.
#[test]
fn a_purge_and_the_holder_are_never_inside_at_once() {
    check(
        || {
            let heap = Arc::new(Heap {
                lists: UnsafeCell::new(0),
                pause: Pause::new(),
            });
            let purge = {
                let heap = heap.clone();
                thread::spawn(move || {
                    heap.pause.stop();
                    fence(Ordering::SeqCst);
                    if heap.pause.is_out() {
                        heap.lists.with_mut(|lists| unsafe { *lists += 1 });
                    }
                    heap.pause.resume();
                })
            };
            for _ in 0..2 {
                heap.pause.enter();
                heap.lists.with_mut(|lists| unsafe { *lists += 1 });
                heap.pause.leave();
            }
            purge.join().unwrap();
        },
        &[
            "PauseEnterBlind",
            "PauseEnterRelaxed",
            "PauseLeaveRelaxed",
            "PauseOutRelaxed",
            "PauseResumeRelaxed",
        ],
    );
}

/// What a barrier that reaches the last holder alone leaves to the new one. Its light barrier binds
/// the compiler alone, so there is none here.
struct Handed {
    holder: AtomicU32,
    inside: AtomicU32,
    stop: AtomicU32,
    lists: UnsafeCell<u32>,
}
unsafe impl Sync for Handed {}
unsafe impl Send for Handed {}

/// A heap gets a new holder, whom the barrier of the purge does not reach. The purge and that
/// holder are never inside at once.
#[test]
fn a_purge_that_knows_the_last_holder_leaves_the_heap_to_the_new_one() {
    const LAST: u32 = 1;
    const NEW: u32 = 2;
    check(
        || {
            let heap = Arc::new(Handed {
                holder: AtomicU32::new(LAST),
                inside: AtomicU32::new(0),
                stop: AtomicU32::new(0),
                lists: UnsafeCell::new(0),
            });
            let purge = {
                let heap = heap.clone();
                thread::spawn(move || {
                    heap.stop.store(1, Ordering::Relaxed);
                    // This orders what the purge does, and reaches nobody.
                    fence(Ordering::SeqCst);
                    let is_known = heap.holder.load(Ordering::Relaxed) == LAST;
                    if is_known && heap.inside.load(Ordering::Acquire) == 0 {
                        heap.lists.with_mut(|lists| unsafe { *lists += 1 });
                    }
                    heap.stop.store(0, Ordering::Release);
                })
            };
            heap.holder.store(NEW, Ordering::Relaxed);
            changed_hands();
            for _ in 0..2 {
                heap.inside.store(1, Ordering::Relaxed);
                if heap.stop.load(Ordering::Acquire) == 0 {
                    heap.lists.with_mut(|lists| unsafe { *lists += 1 });
                }
                heap.inside.store(0, Ordering::Release);
            }
            purge.join().unwrap();
        },
        &["PauseUntold"],
    );
}
