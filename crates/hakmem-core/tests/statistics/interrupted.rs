//! Figures in the child of a fork and in a signal handler.

use super::books::{Block, Random, size_by};
use crate::oracle::in_child;
use crate::turn;
use hakmem_core::stats::Snapshot;

/// The child of a fork counts anew, and what is live stays what it is.
#[test]
fn after_a_fork() {
    let _turn = turn();
    let before: Vec<_> = (0..1000).map(|_| Block::new(96)).collect();
    before[..10].iter().for_each(|b| b.free());
    let live = |s: &Snapshot| s.classes().map(|c| c.live_bytes).collect::<Vec<_>>();
    let pages = |s: &Snapshot| {
        s.classes()
            .map(|c| (c.pages, c.full_pages))
            .collect::<Vec<_>>()
    };
    let parent = Snapshot::take();
    let (live_before, pages_before) = (live(&parent), pages(&parent));
    in_child(|| {
        let now = Snapshot::take();
        assert_eq!((live(&now), pages(&now)), (live_before, pages_before));
        assert_eq!(now.process().allocations, 0);
        let _of_the_child: Vec<_> = (0..100).map(|_| Block::new(96)).collect();
        assert_eq!(Snapshot::take().process().allocations, 100);
    });
    before[10..].iter().for_each(|b| b.free());
}

/// Counters can be read at any moment of an allocation.
#[test]
fn in_a_signal_handler() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static SEEN: AtomicU64 = AtomicU64::new(0);
    extern "C" fn look(_: libc::c_int) {
        let snapshot = Snapshot::take_from_outside();
        let known = snapshot.process().allocations + snapshot.heap_walk().page_slots;
        SEEN.fetch_add(u64::from(known > 0), Relaxed);
    }
    let _turn = turn();
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
        blocks.push(Block::new(size_by(&mut random)));
        if blocks.len() > 1000 {
            blocks.drain(..).for_each(Block::free);
        }
    }
    blocks.into_iter().for_each(Block::free);
    // SAFETY: the timer is switched off by a value of the test, and a signal that comes still is
    // ignored.
    unsafe {
        libc::setitimer(libc::ITIMER_REAL, &off, std::ptr::null_mut());
        libc::signal(libc::SIGALRM, libc::SIG_IGN);
    }
}
