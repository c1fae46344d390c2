//! Starts a background thread, the worker, on demand. The worker exits when it finds no work, or
//! when another thread dismisses it.
//!
//! ```text
//! NONE ── begin ──→ BUSY ── nap ──→ NAPPING ── resume ──→ BUSY ── end ──→ NONE
//! BUSY, NAPPING ── hold ──→ LEAVING ── the worker exits ──→ NONE
//! NAPPING ── relieve ──→ LEAVING ── keep, if the worker has not left ──→ NAPPING
//! NONE ── forbid ──→ FORBIDDEN, for ever
//! ```
//!
//! A *caller* is a thread that has made work. A *holder* is a thread that holds the worker off, for
//! example because it forks. The three do these steps:
//!
//! | caller | worker without work | holder |
//! |---|---|---|
//! | makes work | changes BUSY to NONE | adds itself to the number of holders |
//! | fence | fence | in the same step changes BUSY or NAPPING to LEAVING |
//! | reads the phase | checks for work | waits for NONE and `alive` 0 |
//! | running: nothing to do | none: exits | works alone |
//! | NONE: begins the worker | some: changes NONE to BUSY, goes on | takes itself off the number |
//!
//! The two fences have an order. If the caller's is first, the worker sees the work. If the
//! worker's is first, the caller sees NONE. So no work is left without a worker.
//!
//! Rules
//! 1. One word has the phase and the number of holders. A caller begins the worker only while the
//!    number is 0. A holder that finds NONE and `alive` 0 thus knows two things: there is no
//!    worker, and there will be none until it releases.
//! 2. The thread that begins the worker sets `alive` before the worker can run. The kernel sets it
//!    to 0 when the worker's thread has ended.
//! 3. A worker that finds LEAVING changes the phase to NONE, touches nothing else, and exits.
//! 4. A thread that relieves a worker is a holder until it calls `keep`. So no other worker begins
//!    meanwhile, and the LEAVING that `keep` undoes is that of the same worker.
//! 5. A worker that wakes changes NAPPING to BUSY or LEAVING to NONE in one step. In two steps it
//!    could miss both: `keep` changes the phase too.
//!
//! Model: `tests/loom/worker.rs`.

use crate::base::sync::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    const_new, fence, load_or_cas,
};

const PHASES: u32 = 7;
const NONE: u32 = 0;
const BUSY: u32 = 1;
const NAPPING: u32 = 2;
const LEAVING: u32 = 3;
/// No thread may begin the worker ever again.
const FORBIDDEN: u32 = 4;
/// One holder, in the number of holders.
const HOLDER: u32 = 8;
/// The worker was relieved, and the thread that did this is the only holder.
const LEAVING_RELIEVED: u32 = LEAVING + HOLDER;

/// The word of rule 1, and whether the thread of the last worker still exists.
#[derive(Debug)]
pub struct Worker {
    /// The phase and the number of holders. A worker that naps sleeps on this word.
    pub state: AtomicU32,
    /// The number of the worker's thread while that thread exists, else 0 (rule 2). The thread
    /// still exists for a while after its worker has changed the phase to NONE.
    pub alive: AtomicU32,
}

/// What a caller found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The worker is running, and will see the work.
    Running,
    /// There is no worker: the caller may begin it.
    None,
    /// The caller may not begin a worker now: it is held off, leaving, or forbidden.
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

    /// Changes the word to what `change` makes of its value. Gives up when `change` returns None.
    /// Returns the value before. Sequentially consistent, so that all threads see the phases in one
    /// order.
    #[inline(always)]
    fn update(&self, change: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let mut now = load_or_cas!(self.state, Relaxed);
        loop {
            match self.state.compare_exchange_weak(now, change(now)?, SeqCst, Relaxed) {
                Ok(before) => return Some(before),
                Err(other) => now = other,
            }
        }
    }

    /// Changes the phase, if it is `from`, and leaves the number of holders. Returns true if it
    /// was.
    fn step(&self, from: u32, to: u32) -> bool {
        let step = |now| (now & PHASES == from).then(|| now - from + to);
        self.update(step).is_some()
    }

    /// What a caller that has just made work has to do.
    pub fn call(&self) -> Call {
        fence(SeqCst);
        match self.state.load(Relaxed) {
            NONE => Call::None,
            now if matches!(now & PHASES, BUSY | NAPPING) => Call::Running,
            _ => Call::Held,
        }
    }

    /// Begins the worker. The thread of the last worker may still be exiting, on the stack that the
    /// next one gets: `is_gone` waits until `alive` is 0. `make` makes the thread. Both return
    /// whether they succeeded. Returns true if the worker runs now, false if the caller cannot
    /// count on one.
    pub fn begin(&self, is_gone: impl FnOnce() -> bool, make: impl FnOnce() -> bool) -> bool {
        // Acquire: this thread sees what the last worker did.
        if let Err(now) = self.state.compare_exchange(NONE, BUSY, AcqRel, Relaxed) {
            return matches!(now & PHASES, BUSY | NAPPING);
        }
        // After the step above, so that the last worker cannot change NONE to BUSY and go on.
        let gone = self.alive.load(Acquire) == 0 || is_gone();
        // If a thread holds the worker off by now, the new worker would only leave.
        let made = gone && self.state.load(Relaxed) & PHASES == BUSY && make();
        if !made {
            self.leave();
        }
        made
    }

    /// The worker calls this when it found nothing to do. Returns true if the worker must exit, and
    /// false if there is work after all.
    pub fn end(&self, is_needed: impl FnOnce() -> bool) -> bool {
        if !self.step(BUSY, NONE) {
            self.leave();
            return true;
        }
        // A caller that saw the worker running had made its work before this fence. So the check
        // below sees that work.
        fence(SeqCst);
        !is_needed() || self.state.compare_exchange(NONE, BUSY, SeqCst, Relaxed).is_err()
    }

    /// The worker calls this before it sleeps on the word. Returns the value to sleep on, or None
    /// if the worker was dismissed and must exit.
    pub fn nap(&self) -> Option<u32> {
        if self.step(BUSY, NAPPING) {
            return Some(NAPPING);
        }
        self.leave();
        None
    }

    /// The worker calls this after it slept. Returns false if it was dismissed and must exit.
    pub fn resume(&self) -> bool {
        // In one step (rule 5).
        let before = self.update(|now| match now & PHASES {
            NAPPING => Some(now - NAPPING + BUSY),
            LEAVING => Some(now - LEAVING + NONE),
            _ => None,
        });
        before.is_some_and(|before| before & PHASES == NAPPING)
    }

    /// True if the worker must leave. The worker checks this in the middle of its work.
    pub fn is_dismissed(&self) -> bool {
        self.state.load(Relaxed) & PHASES == LEAVING
    }

    /// Changes the phase to NONE. For the worker that exits, or for the thread that could not make
    /// one.
    fn leave(&self) {
        let _ = self.step(LEAVING, NONE) || self.step(BUSY, NONE);
    }

    /// Dismisses a worker that naps, so that another one can replace it, and holds others off (rule
    /// 4). Returns false if the worker does not nap. Else the caller calls [`Worker::keep`] later.
    pub fn relieve(&self) -> bool {
        self.step(NAPPING, LEAVING_RELIEVED)
    }

    /// Ends [`Worker::relieve`]. If the worker has not left meanwhile and there is no other holder,
    /// the worker goes on. Returns true if it does.
    pub fn keep(&self) -> bool {
        let before = self.update(|now| match now {
            LEAVING_RELIEVED => Some(NAPPING),
            _ => now.checked_sub(HOLDER),
        });
        before == Some(LEAVING_RELIEVED)
    }

    /// Holds the worker off, and dismisses it if it runs. It is gone once [`Worker::is_gone`]
    /// returns true. Each call needs one [`Worker::release`].
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

    /// Ends one `hold`. Returns true if no thread holds the worker off any more.
    pub fn release(&self) -> bool {
        let before = self.update(|now| now.checked_sub(HOLDER));
        before.is_none_or(|before| before - HOLDER < HOLDER)
    }

    /// For a holder: true if the worker's thread does not exist and no thread is making it (rule
    /// 1).
    pub fn is_gone(&self) -> bool {
        // Sequentially consistent, as the steps are. A thread that began the worker set `alive`
        // before the phase was NONE again, so the load of `alive` below sees it.
        let settled = matches!(self.state.load(SeqCst) & PHASES, NONE | FORBIDDEN);
        // Acquire: the holder sees what the worker did.
        settled && self.alive.load(Acquire) == 0
    }

    /// Forbids all further workers. Has an effect only while there is no worker.
    pub fn forbid(&self) {
        let _ = self.step(NONE, FORBIDDEN);
    }

    /// Sets the state to that of no worker and no holder. For the child of a fork, which has one
    /// thread.
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
        // While the worker checks for work a second time, another thread begins a worker.
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
            assert!(
                !worker.release() && !worker.begin(|| true, || unreachable!()) && worker.release()
            );
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
        assert!(!worker.begin(|| true, || unreachable!("one is being relieved")));
        assert!(!worker.keep() && worker.call() == Call::None);
        let worker = begun();
        assert!(worker.nap().is_some() && worker.relieve());
        worker.hold();
        assert!(!worker.keep() && worker.call() == Call::Held && !worker.resume());
        assert!(worker.release() && worker.call() == Call::None);
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
