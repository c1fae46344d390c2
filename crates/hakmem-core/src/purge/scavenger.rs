//! The scavenger: a thread that gives memory back while the program itself is idle.
//!
//! It is made with a bare `clone`, not `pthread_create`: the moment it is needed is inside a `free`, and glibc frees
//! memory while it holds the very locks that `pthread_create` takes. It runs no code but this crate's, on a stack of
//! its own, uses no thread-local storage, and has every signal blocked. It sleeps without a timer while there is
//! little to do.
//!
//! States: NONE → (wake) RUNNING ⇄ PARKED; FAILED after a refused clone, for good. fork sets NONE in the child.

use crate::sync::{AtomicU32, Ordering::*, fence};
use crate::{os, policy, purge};

const NONE: u32 = 0;
const RUNNING: u32 = 1;
const PARKED: u32 = 2;
const FAILED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(NONE);

/// Sees to it that the scavenger is at work. False if there cannot be one.
pub fn wake() -> bool {
    fence(SeqCst); // See `work`.
    match STATE.load(Relaxed) {
        RUNNING => true,
        PARKED => {
            if STATE.compare_exchange(PARKED, RUNNING, AcqRel, Relaxed).is_ok() {
                os::futex_wake(&STATE);
            }
            true
        }
        NONE => start(),
        _ => false,
    }
}

#[cold]
fn start() -> bool {
    if STATE.compare_exchange(NONE, RUNNING, AcqRel, Relaxed).is_err() {
        return true;
    }
    let made = os::spawn_bare(work);
    if !made {
        STATE.store(FAILED, Relaxed);
    }
    made
}

/// In the child of a fork there is no scavenger until one is needed.
pub fn after_fork() {
    STATE.store(NONE, Relaxed);
}

/// True if there is enough to do for the scavenger to stay awake.
fn is_needed() -> bool {
    purge::idle_bytes() >= (policy::SCAVENGE_MIB.get() as usize) << 20
}

extern "C" fn work() -> ! {
    // A word that nobody changes, to sleep on for a time.
    static NEVER: AtomicU32 = AtomicU32::new(0);
    let mut fruitless = 0;
    loop {
        let decay = policy::DECAY_MS.get().clamp(20, 60_000);
        // Memory that cannot be given back (locked, say) is tried ever more rarely.
        os::futex_wait(&NEVER, 0, Some((decay / 2) << (fruitless / 8).min(6)));
        let given = purge::pass(os::now_ms(), policy::DECAY_MS.get());
        fruitless = if given > 0 { 0 } else { (fruitless + 1).min(64) };
        if purge::idle_bytes() > 0 && (given > 0 || is_needed()) {
            continue;
        }
        STATE.store(PARKED, SeqCst);
        // Who freed memory before that saw RUNNING and went on; this look sees what it freed. Sequentially consistent on
        // both sides: one of the two must see the other.
        fence(SeqCst);
        if !is_needed() {
            os::futex_wait(&STATE, PARKED, None);
        }
        STATE.store(RUNNING, SeqCst);
    }
}
