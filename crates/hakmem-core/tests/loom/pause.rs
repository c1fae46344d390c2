use crate::base::sync::{Ordering, fence};
use crate::check;
use crate::proto::pause::Pause;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
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
