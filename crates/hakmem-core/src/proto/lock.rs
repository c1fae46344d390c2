//! A lock for the rare paths: one word, asleep in the kernel while it waits.
//!
//! States: 0 free, 1 held, 2 held and somebody may sleep. A waiter always leaves 2 behind when it gets the lock, so
//! that the next one is woken; that costs a needless wake now and then and never loses one.

use crate::sync::{AtomicU32, Ordering, const_new, spin};

/// A mutual exclusion lock, held across fork by the fork handlers.
#[derive(Debug)]
pub struct Lock {
    state: AtomicU32,
}

/// Letting go of it unlocks.
#[derive(Debug)]
#[must_use]
pub struct Guard<'a>(&'a Lock);

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

impl Lock {
    const_new! {
        /// A free lock.
        pub fn new() -> Self {
            Self { state: AtomicU32::new(0) }
        }
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> Guard<'_> {
        self.acquire();
        Guard(self)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        // Acquire: what the last holder wrote.
        let got = self
            .state
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        got.is_ok().then_some(Guard(self))
    }

    /// Takes the lock without a guard, for fork handlers.
    pub fn acquire(&self) {
        for _ in 0..if cfg!(loom) { 1 } else { 100 } {
            if self
                .state
                .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            spin();
        }
        while self.state.swap(2, Ordering::Acquire) != 0 {
            wait(&self.state);
        }
    }

    /// Lets go of the lock; the caller holds it.
    pub fn release(&self) {
        // Release: what this holder wrote.
        if self.state.swap(0, Ordering::Release) == 2 {
            wake(&self.state);
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(not(loom))]
fn wait(word: &AtomicU32) {
    crate::os::futex_wait(word, 2, None);
}
#[cfg(not(loom))]
fn wake(word: &AtomicU32) {
    crate::os::futex_wake(word);
}
#[cfg(loom)]
fn wait(_: &AtomicU32) {
    spin();
}
#[cfg(loom)]
fn wake(_: &AtomicU32) {}
