//! A worker that is there while there is work: whoever makes work calls it, and it ends when there is none, or when it is
//! dismissed.
//!
//! ```text
//! caller:   make work · fence · read the word         on worker: done · NONE: begin
//! worker:   BUSY → NONE · fence · look for work       none: end · some: NONE → BUSY, go on
//! holder:   count up, running → LEAVING · wait until NONE and not alive · … · count down
//!
//!              begin            nap
//!       NONE ────────→ BUSY ⇄ NAPPING        dismissed, held: BUSY, NAPPING → LEAVING → NONE
//!         ↑──────────────┘ end   resume
//! ```
//!
//! With both fences one of the two sees the other: no work is left without a worker.
//!
//! Rules
//! 1. The phase and the number of holders are one word. A worker is begun only while nobody holds it off, so who holds it off
//!    and then finds NONE and `alive` 0 knows that there is no worker, and that none will be before it lets go.
//! 2. `alive` is set by who begins the worker, before it can run, and reset by who ends its thread: the kernel.
//! 3. A worker that is LEAVING touches nothing but this word.

use crate::base::sync::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    const_new, fence, look,
};

const PHASES: u32 = 7;
const NONE: u32 = 0;
const BUSY: u32 = 1;
const NAPPING: u32 = 2;
const LEAVING: u32 = 3;
/// There shall be no worker any more.
const FORBIDDEN: u32 = 4;
const HOLDER: u32 = 8;

/// The word, and whether the last worker is still there.
#[derive(Debug)]
pub struct Worker {
    /// A worker that naps sleeps on it.
    pub state: AtomicU32,
    /// Rule 2: not 0 while the worker's thread is there (its number), which is for a while after it ended its worker.
    pub alive: AtomicU32,
}

/// What a caller found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The worker is running, and will see the work.
    Running,
    /// There is none: the caller may begin it.
    None,
    /// There is none now: it is held off, on its way out, or forbidden.
    Held,
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}

impl Worker {
    const_new! {
        /// No worker.
        pub fn new() -> Self {
            Self { state: AtomicU32::new(NONE), alive: AtomicU32::new(0) }
        }
    }

    /// Changes the word to what `change` makes of its value, or gives up where it says None. Sequentially consistent: the phases
    /// are told from each other in one order by all. Returns the value before.
    #[inline(always)]
    fn update(&self, change: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let mut now = look!(self.state, Relaxed);
        loop {
            match self.state.compare_exchange_weak(now, change(now)?, SeqCst, Relaxed) {
                Ok(before) => return Some(before),
                Err(other) => now = other,
            }
        }
    }

    fn step(&self, from: u32, to: u32) -> bool {
        let step = |now| (now & PHASES == from).then(|| now - from + to);
        self.update(step).is_some()
    }

    /// Asked after work was made.
    pub fn call(&self) -> Call {
        fence(SeqCst);
        match self.state.load(Relaxed) {
            NONE => Call::None,
            now if matches!(now & PHASES, BUSY | NAPPING) => Call::Running,
            _ => Call::Held,
        }
    }

    /// Begins the worker: `is_gone` waits for the end of the last worker's thread, which may still be on its way out, on the stack
    /// that the next would get; `make` makes the worker. Both say whether it went well. False: there is none to count on now.
    pub fn begin(&self, is_gone: impl FnOnce() -> bool, make: impl FnOnce() -> bool) -> bool {
        // Acquire: what the last worker did.
        if let Err(now) = self.state.compare_exchange(NONE, BUSY, AcqRel, Relaxed) {
            return matches!(now & PHASES, BUSY | NAPPING);
        }
        // Asked after the step above, which keeps the last one from going on.
        let gone = self.alive.load(Acquire) == 0 || is_gone();
        // Somebody may hold it off by now: then the worker would only leave.
        let made = gone && self.state.load(Relaxed) & PHASES == BUSY && make();
        if !made {
            self.leave();
        }
        made
    }

    /// Called by the worker, which found nothing to do: true if it is to end, false if there is work after all.
    pub fn end(&self, is_needed: impl FnOnce() -> bool) -> bool {
        if !self.step(BUSY, NONE) {
            self.leave();
            return true;
        }
        // Who made work before that saw the worker running and went on; this look sees what it made.
        fence(SeqCst);
        !is_needed() || self.state.compare_exchange(NONE, BUSY, SeqCst, Relaxed).is_err()
    }

    /// Called by the worker before it sleeps on the word: the value to sleep on. None: it is dismissed, and has left.
    pub fn nap(&self) -> Option<u32> {
        if self.step(BUSY, NAPPING) {
            return Some(NAPPING);
        }
        self.leave();
        None
    }

    /// Called by the worker after it slept. False: it is dismissed, and has left.
    pub fn resume(&self) -> bool {
        let on = self.step(NAPPING, BUSY);
        if !on {
            self.leave();
        }
        on
    }

    /// True if the worker is to leave: asked in the middle of its work.
    pub fn is_dismissed(&self) -> bool {
        self.state.load(Relaxed) & PHASES == LEAVING
    }

    /// The worker, or who could not make it, is through.
    fn leave(&self) {
        let _ = self.step(LEAVING, NONE) || self.step(BUSY, NONE);
    }

    /// Dismisses a worker that naps: it is to be replaced. True if it was one.
    pub fn relieve(&self) -> bool {
        self.step(NAPPING, LEAVING)
    }

    /// Takes [`Worker::relieve`] back, if the worker has not seen it. False: it has, or was dismissed anew.
    pub fn keep(&self) -> bool {
        self.state.compare_exchange(LEAVING, NAPPING, SeqCst, Relaxed).is_ok()
    }

    /// Holds the worker off: it is dismissed if it is there. It is gone once `is_gone`. Calls nest.
    #[inline]
    pub fn hold(&self) {
        let _ = self.update(|now| {
            let phase = match now & PHASES {
                BUSY | NAPPING => LEAVING,
                other => other,
            };
            Some((now & !PHASES) + HOLDER + phase)
        });
    }

    /// Ends one `hold`. True if nobody holds the worker off any more.
    pub fn release(&self) -> bool {
        let before = self.update(|now| now.checked_sub(HOLDER));
        before.is_none_or(|before| before - HOLDER < HOLDER)
    }

    /// True if there is no worker's thread, nor one that is being made (rule 1): for who holds it off.
    pub fn is_gone(&self) -> bool {
        // Sequentially consistent, as the steps are: whoever began the worker set `alive` before it left.
        let settled = matches!(self.state.load(SeqCst) & PHASES, NONE | FORBIDDEN);
        // Acquire: what the worker did.
        settled && self.alive.load(Acquire) == 0
    }

    /// There shall be no worker any more, once this one is gone.
    pub fn forbid(&self) {
        let _ = self.step(NONE, FORBIDDEN);
    }

    /// In the child of a fork, where there is one thread.
    pub fn after_fork(&self) {
        self.alive.store(0, Relaxed);
        if self.state.load(Relaxed) & PHASES != FORBIDDEN {
            self.state.store(NONE, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn begun() -> Worker {
        let worker = Worker::new();
        assert!(worker.begin(|| unreachable!("there was none"), || true));
        worker
    }

    #[test]
    fn a_worker_is_begun_once_and_ends_when_nothing_is_left() {
        let worker = Worker::new();
        assert_eq!(worker.call(), Call::None);
        assert!(worker.begin(|| unreachable!("there was none"), || true));
        assert_eq!(worker.call(), Call::Running);
        assert!(worker.begin(|| unreachable!(), || unreachable!("there is one")));
        assert!(!worker.end(|| true), "there is work after all");
        assert_eq!(worker.call(), Call::Running);
        assert!(worker.nap().is_some() && worker.call() == Call::Running && worker.resume());
        assert!(worker.end(|| false));
        assert_eq!(worker.call(), Call::None);
        assert!(worker.begin(|| true, || true));
        // While it looks once more, another one is begun.
        assert!(worker.end(|| worker.begin(|| true, || true)));
        assert_eq!(worker.call(), Call::Running);
    }

    #[test]
    fn the_last_one_is_waited_for() {
        let worker = Worker::new();
        worker.alive.store(1, Relaxed);
        assert!(!worker.begin(|| false, || unreachable!("the last one is still there")));
        assert_eq!(worker.call(), Call::None);
        assert!(worker.begin(|| true, || true));
    }

    #[test]
    fn one_that_could_not_be_made_may_be_tried_again() {
        let worker = Worker::new();
        assert!(!worker.begin(|| true, || false));
        assert_eq!(worker.call(), Call::None);
        assert!(worker.begin(|| true, || true));
    }

    #[test]
    fn who_is_held_off_leaves_and_does_not_come() {
        for napping in [false, true] {
            let worker = begun();
            worker.alive.store(1, Relaxed);
            assert!(!napping || worker.nap().is_some());
            worker.hold();
            worker.hold();
            assert!(worker.is_dismissed() && !worker.is_gone() && worker.call() == Call::Held);
            assert!(if napping { !worker.resume() } else { worker.nap().is_none() });
            assert!(!worker.is_gone(), "its thread is there");
            worker.alive.store(0, Relaxed);
            assert!(worker.is_gone());
            assert!(!worker.begin(|| true, || unreachable!("it is held off")));
            assert!(!worker.release() && !worker.begin(|| true, || unreachable!()) && worker.release());
            assert!(worker.begin(|| true, || true));
        }
        let worker = begun();
        worker.hold();
        assert!(worker.end(|| unreachable!("it is dismissed")) && worker.is_gone());
        assert!(worker.release() && worker.release(), "one too many changes nothing");
        assert_eq!(worker.call(), Call::None);
    }

    #[test]
    fn who_is_held_off_while_it_is_begun_is_not_made() {
        let worker = Worker::new();
        let last_goes = || {
            worker.hold();
            true
        };
        worker.alive.store(1, Relaxed);
        assert!(!worker.begin(last_goes, || unreachable!("it is held off")));
        worker.alive.store(0, Relaxed);
        assert!(worker.is_gone() && worker.release());
    }

    #[test]
    fn one_that_naps_is_relieved() {
        let worker = begun();
        assert!(!worker.relieve(), "it is busy");
        assert!(worker.nap().is_some() && worker.relieve() && worker.call() == Call::Held);
        assert!(worker.keep() && worker.call() == Call::Running && !worker.keep());
        assert!(worker.relieve() && !worker.resume());
        assert!(!worker.keep() && worker.call() == Call::None);
    }

    #[test]
    fn what_is_forbidden_is_so_for_good() {
        let worker = Worker::new();
        worker.forbid();
        assert_eq!(worker.call(), Call::Held);
        assert!(worker.is_gone() && !worker.begin(|| true, || unreachable!("it is forbidden")));
        worker.hold();
        assert!(worker.release());
        worker.after_fork();
        assert_eq!(worker.call(), Call::Held);
    }

    #[test]
    fn the_child_of_a_fork_has_none() {
        let worker = begun();
        worker.alive.store(1, Relaxed);
        worker.hold();
        worker.after_fork();
        assert_eq!((worker.call(), worker.alive.load(Relaxed)), (Call::None, 0));
    }
}
