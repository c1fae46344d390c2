//! Pause: a purge keeps the holder of a heap out of the heap's slow paths for a moment.
//!
//! ```text
//! holder:  inside = 1 → light barrier → stop? → slow path → inside = 0 (release)
//! purge:   stop = 1 → heavy barrier → inside? (acquire) → its work → stop = 0 (release)
//! ```
//!
//! The holder enters a slow path thousands of times for each pause. So its barrier costs nothing:
//! it binds the compiler alone. The barrier of the purge is a system call that makes the holder
//! pass a full barrier (`os::HeavyBarriers`).
//!
//! Rules
//! 1. The holder works only if it read `stop` as 0 after it set `inside`. The purge works only if
//!    it read `inside` as 0 after it set `stop`. The heavy barrier lies before or after the two
//!    steps of the holder, so at least one of the two sees what the other wrote.
//! 2. The holder waits while `stop` is 1, with `inside` 0. The purge never waits for the holder: it
//!    leaves a heap alone whose holder is inside. If a purge reports an error of the program while
//!    it keeps a heap paused, the holder waits until the process ends.
//! 3. One thread at a time pauses heaps: the one that makes a pass of the purge.
//! 4. A heavy barrier may reach the holder alone that the purge knows of. So a thread that becomes
//!    the holder says so first, and calls [`changed_hands`]. The purge asks after its barrier
//!    whether the holder is the one that it knew. If it is not told of a new one, that one sees
//!    `stop`.
//!
//! Model: `tests/loom/pause.rs`. There both barriers are fences: loom has no system call that
//! reaches other threads.

use crate::base::sync::{AtomicU32, Ordering, const_new, fence, light_fence};
use crate::os;

/// A heap has a new holder, who has just stored that. The holder calls this before it enters a slow
/// path for the first time (rule 4).
pub fn changed_hands() {
    // Orders the store before the load in `try_enter`. The purge has a full barrier between its
    // store of `stop` and its question.
    fence(Ordering::SeqCst);
}

/// Keeps the holder and a purge apart. All zero bytes are: nobody is inside.
#[derive(Debug)]
pub struct Pause {
    /// 1 while the holder is in a slow path.
    inside: AtomicU32,
    /// 1 while the purge keeps the holder out.
    stop: AtomicU32,
}

impl Default for Pause {
    fn default() -> Self {
        Self::new()
    }
}

impl Pause {
    const_new! {
        /// Nobody is inside.
        pub fn new() -> Self {
            Self { inside: AtomicU32::new(0), stop: AtomicU32::new(0) }
        }
    }

    /// Enters a slow path. Waits while the purge keeps the holder out. Only the holder calls this,
    /// and calls do not nest.
    #[inline(always)]
    pub fn enter(&self) {
        if !self.try_enter() {
            self.wait_and_enter();
        }
    }

    /// Enters a slow path, unless the purge keeps the holder out. False: it does. The holder counts
    /// as inside all the same. It has to call [`Pause::wait`] or [`Pause::leave`] next.
    #[inline(always)]
    pub fn try_enter(&self) -> bool {
        self.inside.store(1, Ordering::Relaxed);
        light_fence();
        // Acquire: pairs with `resume`, so the holder sees what the purge did.
        self.stop.load(Ordering::Acquire) == 0
    }

    /// Waits until the purge keeps the holder out no more.
    pub fn wait(&self) {
        // Release: as in `leave`.
        self.inside.store(0, Ordering::Release);
        while self.stop.load(Ordering::Relaxed) != 0 {
            os::sleep_us(20);
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_and_enter(&self) {
        loop {
            self.wait();
            if self.try_enter() {
                return;
            }
        }
    }

    /// Leaves the slow path.
    #[inline(always)]
    pub fn leave(&self) {
        // Release: pairs with `is_out`, so the purge sees what the holder did.
        self.inside.store(0, Ordering::Release);
    }

    /// True while the holder is in a slow path. Also for the child of a fork, and for a signal
    /// handler of the holder.
    #[inline(always)]
    pub fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed) != 0
    }

    /// Begins a pause. A heavy barrier must follow, and then [`Pause::is_out`].
    pub fn stop(&self) {
        self.stop.store(1, Ordering::Relaxed);
    }

    /// True if the holder is not inside, and stays out until [`Pause::resume`].
    pub fn is_out(&self) -> bool {
        // Acquire: pairs with `leave`.
        self.inside.load(Ordering::Acquire) == 0
    }

    /// Ends a pause.
    pub fn resume(&self) {
        // Release: pairs with `enter`.
        self.stop.store(0, Ordering::Release);
    }

    /// Ends a pause in the child of a fork, which does not have the thread that began it. True:
    /// there was one, and the heap may be half changed.
    pub fn end_in_child(&self) -> bool {
        let paused = self.stop.load(Ordering::Relaxed) != 0;
        self.stop.store(0, Ordering::Relaxed);
        paused
    }
}
