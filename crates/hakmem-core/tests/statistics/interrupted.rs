//! Figures in the child of a fork and in a signal handler.

use crate::alone;
use crate::books::{Block, Random};
use hakmem_core::stats::Snapshot;

/// The child of a fork counts anew, and what is live stays what it is.
#[test]
fn after_a_fork() {
    let _alone = alone();
    let before: Vec<_> = (0..1000).map(|_| Block::new(96)).collect();
    before[..10].iter().for_each(|b| b.free());
    let live = |s: &Snapshot| s.classes().map(|c| c.live_bytes).collect::<Vec<_>>();
    let pages = |s: &Snapshot| {
        s.classes()
            .map(|c| (c.pages, c.asleep_pages))
            .collect::<Vec<_>>()
    };
    let parent = Snapshot::take();
    let (live_before, pages_before) = (live(&parent), pages(&parent));
    // SAFETY: the child only computes and ends by _exit; the other threads are the test runner's, at rest.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let now = Snapshot::take();
        let same = live(&now) == live_before && pages(&now) == pages_before;
        let none = now.process().allocations == 0;
        let _of_the_child: Vec<_> = (0..100).map(|_| Block::new(96)).collect();
        let counted = Snapshot::take().process().allocations == 100;
        // SAFETY: no preconditions.
        unsafe { libc::_exit(i32::from(same) + 2 * i32::from(none) + 4 * i32::from(counted)) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(
        libc::WEXITSTATUS(status),
        7,
        "live and pages the same 1, no allocations 2, a hundred counted 4"
    );
    before[10..].iter().for_each(|b| b.free());
}

/// Counters can be read at any moment of an allocation.
#[test]
fn in_a_signal_handler() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static SEEN: AtomicU64 = AtomicU64::new(0);
    extern "C" fn look(_: libc::c_int) {
        let snapshot = Snapshot::take_from_outside();
        let known = snapshot.process().allocations + snapshot.census().page_slots;
        SEEN.fetch_add(u64::from(known > 0), Relaxed);
    }
    let _alone = alone();
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: 200,
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    let off = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        ..timer
    };
    // SAFETY: the handler reads atomics alone.
    unsafe {
        libc::signal(
            libc::SIGALRM,
            look as extern "C" fn(libc::c_int) as libc::sighandler_t,
        );
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
    }
    let mut random = Random(9);
    let mut blocks = Vec::new();
    while SEEN.load(Relaxed) < 200 {
        blocks.push(Block::new(random.size()));
        if blocks.len() > 1000 {
            blocks.drain(..).for_each(Block::free);
        }
    }
    blocks.into_iter().for_each(Block::free);
    // SAFETY: as above.
    unsafe {
        libc::setitimer(libc::ITIMER_REAL, &off, std::ptr::null_mut());
        libc::signal(libc::SIGALRM, libc::SIG_IGN);
    }
}
