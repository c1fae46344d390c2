//! A worker that is there while there is work: whoever makes work calls it, and it ends when there is none.
//!
//! ```text
//! caller:   make work · fence · read the word       RUNNING: done · NONE: begin
//! worker:   word → NONE · fence · look for work     none: end · some: word → RUNNING, go on
//! ```
//!
//! With both fences one of the two sees the other: no work is left without a worker. FAILED is for good: the worker
//! could not be made, or is not wanted any more.

use crate::mutant::{Mutant, is, relaxed_if};
use crate::sync::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    const_new, fence,
};

const NONE: u32 = 0;
const RUNNING: u32 = 1;
const FAILED: u32 = 2;

/// The word, and whether the last worker is still there.
#[derive(Debug)]
pub struct Duty {
    state: AtomicU32,
    /// Not 0 while the worker's thread is there (its number), which is for a while after it ended its duty. Reset by who ends the
    /// thread: the kernel.
    pub alive: AtomicU32,
}

/// What a caller found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The worker is on duty, and will see the work.
    Running,
    /// There is none: the caller may begin it.
    None,
    /// There never will be one.
    Failed,
}

impl Default for Duty {
    fn default() -> Self {
        Self::new()
    }
}

impl Duty {
    const_new! {
        /// No worker.
        pub fn new() -> Self {
            Self { state: AtomicU32::new(NONE), alive: AtomicU32::new(0) }
        }
    }

    /// Asked after work was made.
    pub fn call(&self) -> Call {
        if !is(Mutant::DutyCallsUnfenced) {
            fence(SeqCst);
        }
        match self.state.load(Relaxed) {
            RUNNING => Call::Running,
            NONE => Call::None,
            _ => Call::Failed,
        }
    }

    /// Begins the duty: `make` makes the worker, and says whether it could. False: there is none to count on now.
    pub fn begin(&self, make: impl FnOnce() -> bool) -> bool {
        if self.state.compare_exchange(NONE, RUNNING, AcqRel, Relaxed).is_err() {
            return true;
        }
        // The last one may still be on its way out, on the stack that the next would get. Asked after the step above,
        // which keeps it from going on.
        if self.alive.load(Acquire) != 0 && !is(Mutant::DutyForgetsTheLast) {
            self.state.store(NONE, Release);
            return false;
        }
        let made = make();
        if !made {
            self.fail();
        }
        made
    }

    /// Called by the worker, which found nothing to do: true if it is to end, false if there is work after all.
    pub fn end(&self, is_needed: impl FnOnce() -> bool) -> bool {
        let order = relaxed_if(Mutant::DutyEndsUnfenced, SeqCst);
        if self.state.compare_exchange(RUNNING, NONE, order, Relaxed).is_err() {
            return true;
        }
        if is(Mutant::DutyLooksOnce) {
            return true;
        }
        // Who made work before that saw RUNNING and went on; this look sees what it made.
        if !is(Mutant::DutyEndsUnfenced) {
            fence(SeqCst);
        }
        !is_needed() || self.state.compare_exchange(NONE, RUNNING, SeqCst, Relaxed).is_err()
    }

    /// There shall be no worker any more.
    pub fn fail(&self) {
        self.state.store(FAILED, SeqCst);
    }

    /// In the child of a fork, where there is one thread.
    pub fn after_fork(&self) {
        self.alive.store(0, Relaxed);
        if self.state.load(Relaxed) != FAILED && !is(Mutant::ForkKeepsScavenger) {
            self.state.store(NONE, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_begun_once_and_ends_when_nothing_is_left() {
        let duty = Duty::new();
        assert_eq!(duty.call(), Call::None);
        assert!(duty.begin(|| true));
        assert_eq!(duty.call(), Call::Running);
        assert!(duty.begin(|| unreachable!("there is one")));
        assert!(!duty.end(|| true), "there is work after all");
        assert_eq!(duty.call(), Call::Running);
        assert!(duty.end(|| false));
        assert_eq!(duty.call(), Call::None);
        assert!(duty.begin(|| true));
        // While it looks once more, another one is begun.
        assert!(duty.end(|| duty.begin(|| true)));
        assert_eq!(duty.call(), Call::Running);
    }

    #[test]
    fn none_is_begun_while_the_last_is_there() {
        let duty = Duty::new();
        duty.alive.store(1, Relaxed);
        assert!(!duty.begin(|| unreachable!("the last one is still there")));
        assert_eq!(duty.call(), Call::None);
        duty.alive.store(0, Relaxed);
        assert!(duty.begin(|| true));
    }

    #[test]
    fn what_failed_fails_for_good() {
        let duty = Duty::new();
        assert!(!duty.begin(|| false));
        assert_eq!(duty.call(), Call::Failed);
        assert!(duty.end(|| unreachable!("it is not wanted")));
        duty.after_fork();
        assert_eq!(duty.call(), Call::Failed);
    }

    #[test]
    fn the_child_of_a_fork_has_none() {
        let duty = Duty::new();
        assert!(duty.begin(|| true));
        duty.alive.store(1, Relaxed);
        duty.after_fork();
        assert_eq!((duty.call(), duty.alive.load(Relaxed)), (Call::None, 0));
    }
}
