//! The scavenger: a thread that gives memory back while the program itself is idle.
//!
//! It is made with a bare `clone`, not `pthread_create`: the moment it is needed is inside a `free`, and glibc frees
//! memory while it holds the very locks that `pthread_create` takes. It runs no code but this crate's, on a stack of
//! its own, uses no thread-local storage, and has every signal blocked. It sleeps without a timer while there is
//! little to do.
//!
//! States: NONE → (wake) RUNNING ⇄ PARKED; FAILED after a refused clone, for good. fork sets NONE in the child.

use crate::sync::{AtomicU32, Ordering::*};
use crate::{os, policy, purge};

const NONE: u32 = 0;
const RUNNING: u32 = 1;
const PARKED: u32 = 2;
const FAILED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(NONE);

/// Sees to it that the scavenger is at work. False if there cannot be one.
pub fn wake() -> bool {
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

extern "C" fn work() -> ! {
    // Sleeping is not on this word, only waiting for work is.
    static NEVER: AtomicU32 = AtomicU32::new(0);
    loop {
        let decay = policy::DECAY_MS.get();
        os::futex_wait(&NEVER, 0, Some(decay.clamp(10, 10_000) / 2));
        let given = purge::pass(os::now_ms(), decay);
        let enough = (policy::SCAVENGE_MIB.get() as usize) << 20;
        let idle = purge::idle_bytes();
        // Little left, or nothing that can be given back.
        if idle == 0 || given == 0 && idle < enough {
            STATE.store(PARKED, Release);
            os::futex_wait(&STATE, PARKED, None);
            STATE.store(RUNNING, Relaxed);
        }
    }
}
