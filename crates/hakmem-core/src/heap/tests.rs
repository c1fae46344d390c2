//! What becomes of heaps in the child of a fork.

extern crate std;

use super::*;
use crate::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Barrier, mpsc};

/// The calling thread's.
fn own() -> &'static Heap {
    thread::with_heap(Some).unwrap()
}

/// A heap that was in the middle of a change is nobody's for ever; another one is whose it may be.
#[test]
fn a_heap_that_was_busy_is_lost_in_the_child() {
    const ME: u32 = 7;
    let (sender, receiver) = mpsc::channel();
    let over = Barrier::new(3);
    let mine = own();
    std::thread::scope(|scope| {
        for is_busy in [true, false] {
            let (sender, over) = (sender.clone(), &over);
            scope.spawn(move || {
                let wait = || {
                    sender.send((is_busy, core::ptr::from_ref(own()).addr())).unwrap();
                    over.wait();
                };
                if is_busy { own().busy(wait) } else { wait() }
            });
        }
        let heaps = [receiver.recv().unwrap(), receiver.recv().unwrap()];
        // SAFETY: heaps are for ever; the child ends below, whatever happens.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let failed = catch_unwind(AssertUnwindSafe(|| {
                for (was_busy, heap) in heaps {
                    let heap = thread::all_heaps().find(|h| core::ptr::from_ref(*h).addr() == heap).unwrap();
                    assert_eq!(heap.tenure.adopt(ME), !was_busy);
                    assert!(heap.inherited.get());
                }
                assert!(core::ptr::eq(own(), mine) && !mine.inherited.get());
            }));
            // SAFETY: no preconditions.
            unsafe { libc::_exit(failed.is_err().into()) };
        }
        let mut status = 0;
        // SAFETY: the child is this process's.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        over.wait();
        assert_eq!((waited, status), (child, 0));
    });
}
