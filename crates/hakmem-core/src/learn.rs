//! Mode `learn`: the learner is told what is demanded, and what it decides is put into the knobs.
//!
//! Told on slow paths alone: where a heap reports its live bytes (each MiB), where whales come and go, where a thread has
//! ended, and in each pass of the purge, which is also where time passes while the program is idle. In mode `frozen` each of
//! these costs a load and a branch.
//!
//! Whoever finds the learner busy goes on without telling: it takes levels, not differences, so the next one puts it right.

use crate::learner::{Decision, Learner, Pool, Settings, What};
use crate::policy::{self, Knob, Mode};
use crate::proto::lock::Lock;
use crate::sync::Ordering::Relaxed;
use crate::sync::plain::AtomicBool;
use crate::{decisions, options, os, usage, whale};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// The learner, which notes down what it decides.
type Noting = Learner<fn(&Decision)>;

/// Without a value until `BEGUN`, so that a program that does not learn has no page of memory for it.
struct Shared(UnsafeCell<MaybeUninit<Noting>>);
// SAFETY: reached under `LOCK` alone.
unsafe impl Sync for Shared {}

/// Held while the learner is told something and what it decides is noted, and across fork. The last in the order of locks.
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
        What::WhaleCache => &policy::WHALE_CACHE_MIB,
        What::Ended => &policy::ENDED_MIB,
    }
}

fn settings_now() -> Settings {
    Settings {
        decay_ms: policy::DECAY_MS.get(),
        whale_mib: policy::WHALE_CACHE_MIB.get(),
        whale_percent: policy::WHALE_CACHE_PERCENT.get(),
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
        let now = usage::live().0 as i64 - whale::live_bytes() as i64;
        tell(&mut |learner, time| learner.demand(time, Pool::Slots, kib(now), kib(now - change + high)));
    }
}

/// The live bytes of whales have changed.
pub fn whales(change: i64) {
    if is_on() {
        let now = whale::live_bytes() as i64;
        tell(&mut |learner, time| learner.demand(time, Pool::Whales, kib(now), kib(now.max(now - change))));
    }
}

/// A whale of that many bytes was not in the cache, though that had as much.
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
        tell(&mut |learner, time| {
            learner.turn(time);
        });
    }
}

/// In the child of a fork that was made while another thread told the learner something: it begins anew.
pub fn forget() {
    BEGUN.store(false, Relaxed);
}
