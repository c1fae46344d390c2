//! Purging: memory that was free for the decay goes back to the system. Slow paths, `trim` and the
//! scavenger do it. The scavenger is a thread that exists only while much free memory is idle.
//!
//! A pass takes these steps:
//! 1. It frees the samples that wait for the profile.
//! 2. It tidies idle heaps, and gives up what the heaps of sleeping threads keep.
//! 3. It purges holes of parked pages.
//! 4. It purges huge blocks in the cache, and those that heaps keep.
//! 5. It purges the segments with dirty slots.
//! 6. It decommits idle segments (`arena::decommit_unused`).
//!
//! Between passes, slow paths purge what exceeds the `budget`, and all free memory where the
//! program passes its soft limit (`limit`).
//!
//! The pass claims a slot before it purges it (see `proto::slots`). So no slot is allocated and
//! purged at once, and all other work goes on beside a pass. `LOCK` only keeps two passes apart.
//! `parked::purge` relies on that.

mod budget;
mod limit;
mod scavenger;

use crate::backend::nodes::Groups;
use crate::backend::page::{Kind, Meta};
use crate::backend::{arena, check, segment};
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, plain};
use crate::heap::all::all_heaps;
use crate::heap::reclaim::sleeping::{self, Pauses};
use crate::heap::reclaim::{parked, whole};
use crate::large;
use crate::large::huge::{self, kept};
use crate::policy::{learner, limits};
use crate::program::registry;
use crate::proto::lock::{Guard, Lock};
use crate::{heap, os, policy, profile};

pub use limit::keep as keep_limit;
pub use scavenger::is_alive as is_scavenged;
pub use scavenger::{announce_rights, end as end_scavenger, forbid, hold, release, stop};

/// Held during a pass.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
/// Before this moment (in coarse milliseconds) no pass is due.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Segments in use when the last pass began or ended. A pass is due early if there are [`NEWS`]
/// more, and a sixteenth more: what lies in heaps by now, no pass has seen, and the threads may
/// sleep before the next one is due.
static KNOWN: AtomicUsize = AtomicUsize::new(0);
const NEWS: usize = 8;
pub static PURGED: AtomicU64 = AtomicU64::new(0);
/// The number of threads that are about to fork. While it is not 0, no pass begins, and a running
/// pass ends soon.
#[unsafe(link_section = ".data.hakmem")]
static FORKS: plain::AtomicU32 = plain::AtomicU32::new(0);

/// Proof that its maker holds `LOCK`, so that no other thread purges. It releases the lock at its
/// end.
struct Held {
    _guard: Guard<'static>,
}

impl Held {
    /// Waits for the lock. None: an error that ends the process was reported, and another thread
    /// has the lock. That thread may wait for this one, in the program's handler of SIGABRT.
    fn wait() -> Option<Self> {
        let guard = LOCK.lock_unless(os::thread_token(), os::is_ending)?;
        Some(Self { _guard: guard })
    }

    /// Waits for the lock for so many milliseconds, but not while a thread is about to fork, nor if
    /// this thread purges in a lower frame. The caller has no lock, unless it is a signal handler.
    fn within(ms: u32) -> Option<Self> {
        let me = os::thread_token();
        let goes_on = || is_welcome() && !LOCK.is_held_by(me) && !os::is_ending();
        Some(Self { _guard: LOCK.lock_for(me, ms, goes_on)? })
    }

    /// None: another thread purges.
    fn attempt() -> Option<Self> {
        Some(Self { _guard: LOCK.try_lock()? })
    }
}

/// Prepares a fork: ends the scavenger, and waits a moment until no other thread makes a pass. If a
/// pass goes on nevertheless, its lock is broken in the child. The wait is short, because the
/// holder may wait for the calling thread if a signal interrupted that `in_the_middle` of
/// something. True if there was a scavenger.
pub fn stand_aside(in_the_middle: bool) -> bool {
    const MOMENTS: u32 = 100;
    FORKS.fetch_add(1, Relaxed);
    let was_there = scavenger::hold_for_fork(in_the_middle);
    let me = os::thread_token();
    for _ in 0..MOMENTS {
        if !LOCK.is_held_by_other_than(me) {
            break;
        }
        os::sleep_us(200);
    }
    was_there
}

/// When a thread last purged before a fork, in coarse milliseconds.
static BEFORE_FORK: AtomicU32 = AtomicU32::new(0);

/// Purges all free memory, for about half a second at most. Not within a tenth of a second after
/// the last time: a program that forks and frees all the time would fault its memory in again and
/// again. Not if the decay is long, as then the program wishes to keep what is free. The calling
/// thread is about to fork; if another one is, too, the pass ends soon.
pub fn before_fork() {
    const MOST_MS: u32 = 500;
    const BETWEEN_MS: u32 = 100;
    const LONG_MS: u32 = 1000;
    let now = os::now_ms();
    if limits::decay() <= LONG_MS
        && os::age(now, BEFORE_FORK.load(Relaxed)) >= BETWEEN_MS
        && let Some(held) = Held::attempt()
    {
        let is_alone = || FORKS.load(Relaxed) <= 1;
        let goes_on = || is_alone() && os::age(os::now_ms(), now) < MOST_MS;
        run(&held, now, 0, Pauses::No, &goes_on);
        BEFORE_FORK.store(os::now_ms(), Relaxed);
    }
}

/// Ends the preparation in the parent, after the fork. The scavenger starts when the program next
/// frees memory, and not at once: a program that forks may count its threads now.
pub fn stand_back() {
    let _ = FORKS.fetch_update(Relaxed, Relaxed, |forks| forks.checked_sub(1));
    scavenger::let_come();
}

/// Resets the state in the child of a fork, which has no scavenger until one is needed.
pub fn after_fork() {
    FORKS.store(0, Relaxed);
    scavenger::after_fork();
    sleeping::after_fork();
}

/// True if a pass may go on. It checks this between its pieces.
#[unsafe(link_section = ".text.hot.hakmem")]
fn is_welcome() -> bool {
    FORKS.load(Relaxed) == 0 && !scavenger::is_dismissed()
}

/// Prevents passes while the guard lives. None: a running pass takes too long.
pub fn keep_away() -> Option<Guard<'static>> {
    LOCK.lock_patiently()
}

/// The bytes given back so far.
pub fn purged_bytes() -> u64 {
    PURGED.load(Relaxed)
}

/// The bytes that a pass may find: those that are free, and those in heaps whose threads may sleep
/// by then.
pub fn expected_bytes() -> usize {
    free_bytes() + sleeping::bytes_ahead()
}

/// The bytes that are free and not given back.
pub fn free_bytes() -> usize {
    let others = parked::free_bytes() + whole::waiting_bytes() + profile::late_bytes();
    (segment::expected_dirty_bytes() + huge::signed_cached_bytes() + others.cast_signed())
        .max(0)
        .cast_unsigned()
}

/// Starts the scavenger if there is enough work for it, else makes a pass if one is due. Callers
/// have just freed memory.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn tick() {
    let (now, decay) = (os::now_ms(), limits::decay());
    limit::keep();
    keep_huge_bound();
    keep_budget(now, decay, budget::STEP);
    let scavenge = policy::SCAVENGE_MIB.get() as usize;
    if scavenge != 0 && expected_bytes() >= scavenge << 20 && scavenger::wake() {
        return;
    }
    let ahead = NEXT.load(Relaxed).wrapping_sub(now);
    // NEXT is at most an interval ahead of the clock. Any other difference means that NEXT is
    // behind the clock, however long ago.
    let is_early = ahead != 0 && ahead <= interval(decay);
    let known = KNOWN.load(Relaxed);
    if is_early && segment::in_use() < known + NEWS.max(known / 16) {
        return;
    }
    pass(now, decay, Pauses::No);
}

/// Purges all that is beyond the budget, because a thread ended. Many threads that end together
/// leave more than a step at a time would give back.
pub fn ended() {
    keep_budget(os::now_ms(), limits::decay(), usize::MAX);
    tick();
}

/// Purges what is beyond the budget, because the program took `bytes` of fresh memory for a huge
/// block: what was freed of smaller blocks cannot serve it.
#[cold]
#[inline(never)]
pub fn grew(bytes: usize) {
    const MOST: usize = 64 << 20;
    keep_budget(os::now_ms(), limits::decay(), bytes.min(MOST));
}

/// Gives back what the huge cache has beyond its bound, because smaller blocks were allocated. Not
/// if a thread is about to fork or another thread purges.
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn keep_huge_bound() {
    if huge::is_beyond_bound()
        && is_welcome()
        && let Some(_held) = Held::attempt()
    {
        huge::keep_bound();
    }
}

/// Purges free memory beyond the budget, `most` bytes and what else is dirty in a segment. Not if
/// a thread is about to fork or another thread purges.
#[unsafe(link_section = ".text.hot.hakmem")]
fn keep_budget(now: u32, decay: u32, most: usize) {
    if budget::excess(now, decay) > 0
        && !budget::is_stuck(now)
        && is_welcome()
        && let Some(held) = Held::attempt()
    {
        PURGED.fetch_add(budget::purge(&held, now, decay, most) as u64, Relaxed);
    }
}

/// The segments with dirty slots. O(groups in use / 64 + those segments).
fn dirty_segments() -> impl Iterator<Item = (&'static arena::Arena, usize)> {
    arena::all().flat_map(|arena| {
        arena.listed(arena::DIRTY_ROW, Groups::ALL).map(move |segment| (arena, segment))
    })
}

/// The milliseconds between two passes on slow paths.
fn interval(decay: u32) -> u32 {
    let interval = (decay / 4).max(10);
    if learner::is_on() { interval.min(learner::PASS_MS) } else { interval }
}

/// Purges memory that was free for `decay` ms at `now`. Returns the bytes given back; 0 also if
/// another pass is running. The pass ends early if a thread is about to fork. O(groups + purged
/// pieces).
#[unsafe(link_section = ".text.hot.hakmem")]
pub fn pass(now: u32, decay: u32, pauses: Pauses) -> usize {
    if !is_welcome() {
        return 0;
    }
    profile::free_late(free_whole);
    let Some(held) = Held::attempt() else { return 0 };
    NEXT.store(now.wrapping_add(interval(decay)), Relaxed);
    KNOWN.store(segment::in_use(), Relaxed);
    learner::turn();
    run(&held, now, decay, pauses, &is_welcome)
}

/// Purges all free memory, also what program heaps keep for their next blocks. Returns the bytes
/// given back.
pub fn all() -> usize {
    all_of(Pauses::No)
}

/// [`all`], as the scavenger would do it: with pauses of heaps. Ends early if a thread is about to
/// fork: a heap that is paused at the fork may be lost to the child.
pub fn all_with_pauses() -> usize {
    all_of(Pauses::Always)
}

/// Frees a large or huge block.
///
/// # Safety
/// It is live, and the caller gives it up.
unsafe fn free_whole(meta: &Meta) {
    // SAFETY: the caller gives up the block, whose kind says which of the two functions frees it.
    unsafe {
        match meta.kind() {
            Kind::Large => large::free(meta),
            Kind::Huge => _ = huge::free(meta),
            _ => check::not_a_block(meta.start(), Some(meta)),
        }
    }
}

fn all_of(pauses: Pauses) -> usize {
    profile::free_late(free_whole);
    let Some(held) = Held::wait() else { return 0 };
    // A heap whose lock this thread has at a fork of another is lost to the child.
    registry::give_up_unused(is_welcome);
    run(&held, os::now_ms(), 0, pauses, &|| pauses == Pauses::No || FORKS.load(Relaxed) == 0)
}

/// Makes a pass while `goes_on` says true. Not generic: the code is there once.
#[unsafe(link_section = ".text.hot.hakmem")]
fn run(_: &Held, now: u32, decay: u32, pauses: Pauses, goes_on: &dyn Fn() -> bool) -> usize {
    heap::pool::tidy(now, decay, pauses, goes_on);
    // SAFETY: the caller's `Held` says that this thread holds `LOCK`.
    let mut given = unsafe { parked::purge(now, decay, goes_on) };
    given += huge::purge(now, decay, goes_on);
    if decay == 0 || kept::is_any() {
        given += all_heaps()
            .take_while(|_| goes_on())
            .map(|heap| heap.huge().purge(now, decay))
            .sum::<usize>();
    }
    for (arena, segment) in dirty_segments().take_while(|_| goes_on()) {
        given += segment::purge(arena, segment, now, decay).given;
    }
    if goes_on() {
        arena::decommit_unused();
    }
    KNOWN.store(segment::in_use(), Relaxed);
    PURGED.fetch_add(given as u64, Relaxed);
    given
}
