//! Mode `learn`: the learner is told what is demanded, and what it decides is put into the knobs.
//!
//! Told on slow paths alone: where a heap reports its live bytes (each MiB), where huge blocks come and go, where a thread has
//! ended, and in each pass of the purge, which is also where time passes while the program is idle. In mode `frozen` each of
//! these costs a load and a branch.
//!
//! Whoever finds the learner busy goes on without telling: it takes levels, not differences, so the next one puts it right.

use crate::base::sync::Ordering::Relaxed;
use crate::base::sync::plain::AtomicBool;
use crate::base::usage;
use crate::os;
use crate::policy::learner::{Decision, Learner, Memory, Settings, What};
use crate::policy::{self, Knob, Mode};
use crate::policy::{decisions, options};
use crate::proto::lock::Lock;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// The learner, which notes down what it decides.
type Noting = Learner<fn(&Decision)>;

/// Without a value until `BEGUN`, so that a program that does not learn has no page of memory for it.
struct Shared(UnsafeCell<MaybeUninit<Noting>>);
// SAFETY: reached under `LOCK` alone.
unsafe impl Sync for Shared {}

/// Held while the learner is told something and what it decides is noted. The last in the order of locks.
#[unsafe(link_section = ".data.hakmem")]
pub static LOCK: Lock = Lock::new();
static LEARNER: Shared = Shared(UnsafeCell::new(MaybeUninit::uninit()));
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Milliseconds between two passes of the purge at most: the learner must see what happens.
pub const PASS_MS: u32 = 125;

/// Whether the mode is `learn`.
#[inline]
pub fn is_on() -> bool {
    policy::MODE.get() == Mode::Learn as u32
}

fn knob(what: What) -> &'static Knob {
    match what {
        What::Decay => &policy::DECAY_MS,
        What::HugeCache => &policy::HUGE_CACHE_MIB,
        What::Ended => &policy::ENDED_MIB,
    }
}

fn settings_now() -> Settings {
    Settings {
        decay_ms: policy::DECAY_MS.get(),
        huge_mib: policy::HUGE_CACHE_MIB.get(),
        huge_percent: policy::HUGE_CACHE_PERCENT.get(),
        ended_mib: policy::ENDED_MIB.get(),
    }
}

/// Calls `f` with the learner, which has begun, and puts into the knobs what it has decided meanwhile.
#[cold]
#[inline(never)]
fn tell(f: &mut dyn FnMut(&mut Noting, u32)) {
    let Some(_held) = LOCK.try_lock() else { return };
    // SAFETY: under the lock, and `f` does not come back here: it calls the learner alone.
    let place = unsafe { &mut *LEARNER.0.get() };
    let now = os::now_ms();
    let begun = BEGUN.load(Relaxed);
    if !begun {
        place.write(Learner::new(decisions::note));
    }
    // SAFETY: just written, or before it was begun.
    let learner = unsafe { place.assume_init_mut() };
    if !begun {
        learner.begin(now, settings_now(), |what| !options::is_chosen(knob(what)));
        BEGUN.store(true, Relaxed);
    }
    let before = learner.settings();
    f(learner, now);
    let after = learner.settings();
    for what in What::ALL {
        // What somebody has set meanwhile is theirs.
        if what.of(&before) != what.of(&after) && !options::is_chosen(knob(what)) {
            knob(what).set(what.of(&after));
        }
    }
}

fn kib(bytes: i64) -> u32 {
    (bytes.max(0) >> 10).min(u32::MAX.into()) as u32
}

/// The live bytes of pages and large blocks have changed, after they stood `high` above where they were.
pub fn slots(change: i64, high: i64) {
    if is_on() {
        let now = usage::live().0 as i64 - usage::huge() as i64;
        tell(&mut |learner, time| learner.demand(time, Memory::Slots, kib(now), kib(now - change + high)));
    }
}

/// The live bytes of huge blocks have changed.
pub fn huge(change: i64) {
    if is_on() {
        let now = usage::huge() as i64;
        tell(&mut |learner, time| learner.demand(time, Memory::Huge, kib(now), kib(now.max(now - change))));
    }
}

/// A huge block of that many bytes was not in the cache, though that had as much.
pub fn misfit(bytes: usize) {
    if is_on() {
        tell(&mut |learner, _| learner.misfit(kib(bytes as i64)));
    }
}

/// A thread has ended.
pub fn ended() {
    if is_on() {
        tell(&mut |learner, time| learner.ended(time));
    }
}

/// A pass of the purge.
pub fn turn() {
    if is_on() {
        tell(&mut |learner, time| learner.turn(time));
    }
}

/// In the child of a fork that was made while another thread told the learner something: it begins anew.
pub fn forget() {
    BEGUN.store(false, Relaxed);
}

#[cfg(all(test, not(any(loom, miri, shuttle))))]
mod tests {
    use super::*;
    use crate::api::c;
    use crate::testing::in_child;

    const MIB: i64 = 1 << 20;

    /// In a child that learns.
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

    /// KiB in use, and, with the first candidate, those that were faulted in and those that are kept.
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
            assert_eq!(seen(What::Decay, Memory::Slots), (30 << 10, 45 << 10, 45 << 10), "40 MiB before, 45 at most");
            huge(8 * MIB);
            assert_eq!(seen(What::HugeCache, Memory::Huge).0, 20 << 10);
            assert_eq!(seen(What::Decay, Memory::Huge).2, 20 << 10, "it was less before");
            huge(-7 * MIB);
            assert_eq!(seen(What::Decay, Memory::Huge).2, 27 << 10, "it was more before");
            usage::LIVE.store(9 * MIB, Relaxed);
            usage::HUGE.store(5 * MIB, Relaxed);
            huge(-15 * MIB);
            slots(-26 * MIB, 0);
            ended();
            let may_stay = "4 MiB in use, and free as much as all that is in use and 4 MiB more";
            assert_eq!(seen(What::Ended, Memory::Slots), (4 << 10, 45 << 10, (4 + 9 + 4) << 10), "{may_stay}");
        });
    }

    #[test]
    fn huge_blocks_that_come_and_go_are_told() {
        learning(|| {
            crate::large::huge::forget_cache();
            usage::HUGE.store(0, Relaxed);
            // SAFETY: blocks of this allocator, each freed once.
            unsafe {
                let blocks = [(); 6].map(|()| c::malloc(4 << 20));
                assert_eq!(seen(What::HugeCache, Memory::Huge), (24 << 10, 24 << 10, 24 << 10));
                blocks.into_iter().step_by(2).for_each(|p| c::free(p));
                assert_eq!(seen(What::HugeCache, Memory::Huge).0, 12 << 10);
                // There are 12 MiB in the cache, in pieces of 4.
                let before = seen(What::HugeCache, Memory::Huge).1;
                let larger = c::malloc(12 << 20);
                // What did not fit was faulted in though it was kept.
                assert_eq!(seen(What::HugeCache, Memory::Huge).1 - before, 12 << 10);
                assert_eq!(seen(What::HugeCache, Memory::Huge).0, 24 << 10);
                // There never was so much.
                let before = seen(What::HugeCache, Memory::Huge).1;
                let largest = c::malloc(40 << 20);
                assert_eq!(seen(What::HugeCache, Memory::Huge).1 - before, 28 << 10, "12 MiB are kept");
                [larger, largest].into_iter().for_each(|p| c::free(p));
                blocks.into_iter().skip(1).step_by(2).for_each(|p| c::free(p));
            }
            assert_eq!(seen(What::HugeCache, Memory::Huge).0, 0);
        });
    }

    /// Bursts that the decay is too short for, on a clock that runs ahead.
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
            assert_eq!(told(|learner, _| learner.settings().decay_ms), 1000, "with what is in force");
        });
    }

    #[test]
    fn what_a_program_has_chosen_is_not_moved() {
        learning(|| {
            options::apply(&options::Options { decay_ms: 250, ..options::Options::DEFAULT });
            assert_eq!(policy::DECAY_MS.get(), 250);
            assert!(options::is_chosen(&policy::DECAY_MS) && !options::is_chosen(&policy::HUGE_CACHE_MIB));
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
