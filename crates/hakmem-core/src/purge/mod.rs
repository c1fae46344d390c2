//! Giving memory back: what has been free for the decay goes to the system, driven from slow paths, by `trim`, and by
//! the scavenger, a thread that exists only once a good deal of freed memory lies idle.
//!
//! A pass merges the remote frees of idle heaps, purges holes in the pages that were parked, then walks the huge cache and the segments that have EMPTY slots. It owns what
//! it gives back while it does so (see `proto::slots`), so it runs beside everything else; `LOCK` only keeps two passes
//! apart.

mod scavenger;

use crate::backend::{arena, segment};
use crate::base::sync::{AtomicU32, AtomicU64, Ordering::Relaxed, plain};
use crate::base::usage;
use crate::heap::parked;
use crate::large::huge;
use crate::policy::learn;
use crate::proto::lock::{Guard, Lock};
use crate::{heap, os, policy};

#[cfg(shuttle)]
pub use scavenger::is_alive as is_scavenged;
pub use scavenger::{announce_rights, forbid, hold, release, stop};

/// Held over a pass.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
/// Before this moment (coarse milliseconds) no pass is due.
static NEXT: AtomicU32 = AtomicU32::new(0);
pub static PURGED: AtomicU64 = AtomicU64::new(0);
/// Threads that are about to fork: meanwhile no pass is begun, and the one that runs ends soon.
static FORKS: plain::AtomicU32 = plain::AtomicU32::new(0);

/// Before a fork: the scavenger ends, and passes do. What runs on all the same is torn in the child. Waits for a moment
/// only: what it waits for may wait for the calling thread, if that was interrupted `in_the_middle` of something.
pub fn stand_aside(in_the_middle: bool) {
    const MOMENTS: u32 = 100;
    FORKS.fetch_add(1, Relaxed);
    scavenger::hold(in_the_middle);
    let me = os::thread_token();
    for _ in 0..MOMENTS {
        if !LOCK.is_held_by_other_than(me) {
            return;
        }
        os::sleep_us(200);
    }
}

/// After a fork, in the parent. The scavenger comes when memory is freed next, not at once: a program that forks may count
/// its threads now.
pub fn stand_back() {
    let _ = FORKS.fetch_update(Relaxed, Relaxed, |forks| forks.checked_sub(1));
    scavenger::let_come();
}

/// In the child of a fork there is one thread, and no scavenger until one is needed.
pub fn after_fork() {
    FORKS.store(0, Relaxed);
    scavenger::after_fork();
}

/// True if a pass is to end soon: asked between its pieces.
fn is_unwelcome() -> bool {
    FORKS.load(Relaxed) != 0 || scavenger::is_dismissed()
}

/// Keeps passes away until the guard goes. None: a pass takes too long.
pub fn keep_away() -> Option<Guard<'static>> {
    LOCK.lock_patiently()
}

/// Bytes given back so far.
pub fn purged_bytes() -> u64 {
    PURGED.load(Relaxed)
}

/// Bytes that are free and not given back.
pub fn idle_bytes() -> usize {
    segment::dirty_bytes() + huge::cached_bytes() + parked::idle_bytes()
}

/// Called where memory became free: makes a pass if one is due, and wakes the scavenger if there is work for it.
#[cold]
#[inline(never)]
pub fn tick() {
    let idle = idle_bytes();
    let scavenge = policy::SCAVENGE_MIB.get() as usize;
    if scavenge != 0 && idle >= scavenge << 20 && scavenger::wake() {
        return;
    }
    let (now, decay) = (os::now_ms(), policy::DECAY_MS.get());
    let ahead = NEXT.load(Relaxed).wrapping_sub(now);
    // NEXT lies at most an interval ahead of the clock; anything else is behind it, however long ago.
    if ahead != 0 && ahead <= interval(decay) {
        return;
    }
    pass(now, decay);
}

/// Called when a thread ended. Many threads that end together leave a lot that is not wanted soon: all free slots beyond a
/// limit go back at once. Where as much is still in use, the next thread does as this one did, and would fault it in again.
pub fn ended() {
    learn::ended();
    let limit = ((policy::ENDED_MIB.get() as usize) << 20) + usage::live().0 as usize;
    if segment::dirty_bytes() > limit
        && let Some(_held) = LOCK.try_lock()
    {
        let now = os::now_ms();
        let segments =
            arena::all().flat_map(|arena| arena.listed(arena::DIRTY_ROW).map(move |segment| (arena, segment)));
        let mut given = 0;
        for (arena, segment) in segments {
            if segment::dirty_bytes() <= limit {
                break;
            }
            given += segment::purge(arena, segment, now, 0);
        }
        PURGED.fetch_add(given as u64, Relaxed);
    }
    tick();
}

/// Milliseconds between passes that are made on slow paths.
fn interval(decay: u32) -> u32 {
    let interval = (decay / 4).max(10);
    if learn::is_on() { interval.min(learn::PASS_MS) } else { interval }
}

/// Gives back what has been free for `decay` ms at `now`. Returns the bytes; 0 also if another pass is running. It ends
/// early if a thread is about to fork. O(groups + freed pieces).
pub fn pass(now: u32, decay: u32) -> usize {
    if is_unwelcome() {
        return 0;
    }
    let Some(_held) = LOCK.try_lock() else { return 0 };
    NEXT.store(now.wrapping_add(interval(decay)), Relaxed);
    learn::turn();
    run(now, decay, || !is_unwelcome())
}

/// Gives everything back that is free now. Returns the bytes.
pub fn all() -> usize {
    let _held = LOCK.lock();
    run(os::now_ms(), 0, || true)
}

/// A pass, for as long as `goes_on` says so.
fn run(now: u32, decay: u32, goes_on: impl Fn() -> bool + Copy) -> usize {
    heap::pool::tidy_idle(goes_on);
    let mut given = parked::purge(now, decay, goes_on) + huge::purge(now, decay, goes_on);
    let segments = arena::all().flat_map(|arena| arena.listed(arena::DIRTY_ROW).map(move |segment| (arena, segment)));
    for (arena, segment) in segments.take_while(|_| goes_on()) {
        given += segment::purge(arena, segment, now, decay);
    }
    arena::decommit_idle();
    PURGED.fetch_add(given as u64, Relaxed);
    given
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use crate::api::c;
    use crate::testing::in_child;
    use std::vec::Vec;

    /// Of large blocks, of which a heap keeps the last few.
    fn leave(mib: usize) {
        // SAFETY: blocks of this allocator, each freed once.
        unsafe {
            let blocks: Vec<_> = (0..mib).map(|_| c::malloc(1 << 20)).collect();
            blocks.into_iter().for_each(|p| c::free(p));
        }
    }

    #[test]
    fn what_a_thread_leaves_stays_up_to_a_limit() {
        in_child(|| {
            policy::SCAVENGE_MIB.set(0);
            policy::DECAY_MS.set(u32::MAX);
            all();
            usage::LIVE.store(0, Relaxed);
            leave(4);
            let (before, little) = (purged_bytes(), segment::dirty_bytes());
            assert!(little > 0);
            ended();
            assert_eq!((purged_bytes(), segment::dirty_bytes()), (before, little));
            leave(30);
            let much = segment::dirty_bytes();
            // As much as is in use may stay beside that.
            usage::LIVE.store(16 << 20, Relaxed);
            ended();
            let rest = segment::dirty_bytes();
            assert!(much > 22 << 20 && (18 << 20..=20 << 20).contains(&rest), "{much} {rest}");
            usage::LIVE.store(0, Relaxed);
            ended();
            let least = segment::dirty_bytes();
            assert!((2 << 20..=4 << 20).contains(&least), "{least}");
            assert_eq!(purged_bytes() - before, (much - least) as u64);
        });
    }
}
