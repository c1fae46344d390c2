//! The moves: reports of the program's demand to the learner, and its decisions into the knobs.
//!
//! The learner is a pure state machine (`trials`). This module is the part with a lock and a clock
//! around it.
//!
//! Only slow paths report: where a heap reports its live bytes (each MiB), where huge blocks are
//! allocated and freed, and in each pass of the purge. In an idle program only the passes let time
//! pass for the learner. In mode `frozen` each of these costs a load and a branch.
//!
//! Rules
//! 1. `LOCK` guards the learner. It is the last in the order of locks.
//! 2. A thread that finds the lock taken goes on without a report. Reports are levels, not
//!    differences. So the next one makes up for it.

use super::{Decision, Learner, Memory, Settings, What, decisions};
use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicBool;
use crate::base::usage;
use crate::os;
use crate::policy::options;
use crate::policy::{self, Knob, Mode};
use crate::proto::lock::Lock;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// The learner, which notes its decisions in the journal.
type Noting = Learner<fn(&Decision)>;

/// Has no value before `BEGUN`, so that a program that does not learn spends no page of memory on
/// it.
struct Shared(UnsafeCell<MaybeUninit<Noting>>);
// SAFETY: only `tell` uses the learner, and holds the lock meanwhile (rule 1).
unsafe impl Sync for Shared {}

/// A thread holds it while it reports to the learner and while a decision is noted.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
static LEARNER: Shared = Shared(UnsafeCell::new(MaybeUninit::uninit()));
static BEGUN: AtomicBool = AtomicBool::new(false);

/// The longest time between two passes of the purge, in milliseconds, so that the learner sees what
/// happens.
pub const PASS_MS: u32 = 125;

/// True if the mode is `learn`.
#[inline]
pub fn is_on() -> bool {
    policy::MODE.get() == Mode::Learn as u32
}

fn knob(what: What) -> &'static Knob {
    match what {
        What::Decay => &policy::DECAY_MS,
        What::HugeCache => &policy::HUGE_CACHE_MIB,
    }
}

fn settings_now() -> Settings {
    Settings {
        decay_ms: policy::DECAY_MS.get(),
        huge_mib: policy::HUGE_CACHE_MIB.get(),
        huge_percent: policy::HUGE_CACHE_PERCENT.get(),
    }
}

/// Calls `f` with the learner, and then puts its decisions into the knobs. Begins the learner
/// first, if need be.
#[cold]
#[inline(never)]
fn tell(f: &mut dyn FnMut(&mut Noting, u32)) {
    let Some(_held) = LOCK.try_lock() else { return };
    // SAFETY: this thread has just taken the lock (rule 1). A further call, in a signal handler,
    // finds the lock taken and returns. `f` only calls the learner. So this is the only reference.
    let place = unsafe { &mut *LEARNER.0.get() };
    let now = os::now_ms();
    let begun = BEGUN.load(Relaxed);
    if !begun {
        place.write(Learner::new(decisions::note));
    }
    // SAFETY: the lines above wrote the learner, or a call before did: then `BEGUN` is set.
    let learner = unsafe { place.assume_init_mut() };
    if !begun {
        learner.begin(now, settings_now(), |what| !options::is_chosen(knob(what)));
        BEGUN.store(true, Relaxed);
    }
    let before = learner.settings();
    f(learner, now);
    let after = learner.settings();
    for what in What::ALL {
        // An option that somebody has set meanwhile stays.
        if what.of(&before) != what.of(&after) && !options::is_chosen(knob(what)) {
            knob(what).set(what.of(&after));
        }
    }
}

fn kib(bytes: i64) -> u32 {
    (bytes.max(0) >> 10).min(u32::MAX.into()) as u32
}

/// Reports a change of the live bytes of pages and large blocks. In between they were `high` above
/// their former level.
pub fn slots(change: i64, high: i64) {
    if is_on() {
        let now = usage::live().0 as i64 - usage::huge() as i64;
        tell(&mut |learner, time| {
            learner.demand(time, Memory::Slots, kib(now), kib(now - change + high))
        });
    }
}

/// Reports a change of the live bytes of huge blocks.
pub fn huge(change: i64) {
    if is_on() {
        let now = usage::huge() as i64;
        tell(&mut |learner, time| {
            learner.demand(time, Memory::Huge, kib(now), kib(now.max(now - change)))
        });
    }
}

/// Reports that no cached run fitted a huge block of `bytes`, though the cache had as many bytes.
pub fn misfit(bytes: usize) {
    if is_on() {
        tell(&mut |learner, _| learner.misfit(kib(bytes as i64)));
    }
}

/// Reports a pass of the purge: time has passed.
pub fn turn() {
    if is_on() {
        tell(&mut |learner, time| learner.turn(time));
    }
}

/// Forgets the learner. It begins anew. For the child of a fork, if another thread was reporting at
/// that moment.
pub fn forget() {
    BEGUN.store(false, Relaxed);
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::api::c;
    use crate::testing::{BEHIND, in_child, keep_nothing_back};

    const MIB: i64 = 1 << 20;

    /// Runs `f` in a child that learns.
    fn learning(f: impl FnOnce()) {
        in_child(|| {
            policy::MODE.set(Mode::Learn as u32);
            forget();
            f();
        });
    }

    fn told<R>(f: impl Fn(&mut Noting, u32) -> R) -> R {
        let mut result = None;
        tell(&mut |learner, now| result = Some(f(learner, now)));
        result.unwrap()
    }

    /// KiB in use; and, with the first candidate, KiB faulted in and KiB kept.
    fn seen(what: What, memory: Memory) -> (u32, u64, u32) {
        told(|learner, _| {
            let (faulted, kept) = learner.faulted_and_kept(what, memory);
            (learner.level(memory), faulted, kept)
        })
    }

    #[test]
    fn levels_are_told_with_what_was_above_them() {
        learning(|| {
            usage::LIVE.store(50 * MIB, Relaxed);
            usage::HUGE.store(20 * MIB, Relaxed);
            slots(-10 * MIB, 5 * MIB);
            assert_eq!(
                seen(What::Decay, Memory::Slots),
                (30 << 10, 45 << 10, 45 << 10),
                "40 MiB before, 45 at most"
            );
            huge(8 * MIB);
            assert_eq!(seen(What::HugeCache, Memory::Huge).0, 20 << 10);
            assert_eq!(seen(What::Decay, Memory::Huge).2, 20 << 10, "it was less before");
            huge(-7 * MIB);
            assert_eq!(seen(What::Decay, Memory::Huge).2, 27 << 10, "it was more before");
        });
    }

    #[test]
    fn huge_blocks_that_come_and_go_are_told() {
        learning(|| {
            keep_nothing_back();
            crate::large::huge::forget_part(0);
            usage::HUGE.store(0, Relaxed);
            // SAFETY: the blocks come from `malloc`, and each is freed once.
            unsafe {
                let blocks = [(); 6].map(|()| c::malloc((4 << 20) - BEHIND));
                assert_eq!(seen(What::HugeCache, Memory::Huge), (24 << 10, 24 << 10, 24 << 10));
                blocks.into_iter().step_by(2).for_each(|p| c::free(p));
                assert_eq!(seen(What::HugeCache, Memory::Huge).0, 12 << 10);
                // The cache has 12 MiB, in pieces of 4.
                let before = seen(What::HugeCache, Memory::Huge).1;
                let larger = c::malloc((12 << 20) - BEHIND);
                // What did not fit counts as faulted in, though the memory was kept.
                assert_eq!(seen(What::HugeCache, Memory::Huge).1 - before, 12 << 10);
                assert_eq!(seen(What::HugeCache, Memory::Huge).0, 24 << 10);
                // There was never so much in use.
                let before = seen(What::HugeCache, Memory::Huge).1;
                let largest = c::malloc((40 << 20) - BEHIND);
                assert_eq!(
                    seen(What::HugeCache, Memory::Huge).1 - before,
                    28 << 10,
                    "12 MiB are kept"
                );
                [larger, largest].into_iter().for_each(|p| c::free(p));
                blocks.into_iter().skip(1).step_by(2).for_each(|p| c::free(p));
            }
            assert_eq!(seen(What::HugeCache, Memory::Huge).0, 0);
        });
    }

    /// Reports bursts for which the decay is too short, on a clock that runs ahead.
    fn bursts(learner: &mut Noting, now: u32) {
        for i in 0..4 {
            let now = now + i * 800;
            learner.demand(now, Memory::Slots, 200 << 10, 200 << 10);
            learner.demand(now + 50, Memory::Slots, 0, 0);
        }
        assert_eq!(learner.settings().decay_ms, 1000);
    }

    #[test]
    fn what_is_decided_is_in_force_at_once() {
        learning(|| {
            told(bursts);
            assert_eq!(policy::DECAY_MS.get(), 1000);
            forget();
            assert_eq!(seen(What::Decay, Memory::Slots), (0, 0, 0), "it begins anew");
            assert_eq!(
                told(|learner, _| learner.settings().decay_ms),
                1000,
                "with what is in force"
            );
        });
    }

    #[test]
    fn what_a_program_has_chosen_is_not_moved() {
        learning(|| {
            options::apply(&options::Options { decay_ms: 250, ..options::Options::DEFAULT });
            assert_eq!(policy::DECAY_MS.get(), 250);
            assert!(
                options::is_chosen(&policy::DECAY_MS)
                    && !options::is_chosen(&policy::HUGE_CACHE_MIB)
            );
        });
    }

    #[test]
    fn what_somebody_sets_while_it_learns_stays() {
        learning(|| {
            turn();
            options::set("DECAY_MS", "500").unwrap();
            told(bursts);
            assert_eq!(policy::DECAY_MS.get(), 500);
        });
    }
}
